// Everything: #include <samebits/samebits.h>
#pragma once

#include <samebits/context.h>
#include <samebits/dtype.h>
#include <samebits/embedding.h>
#include <samebits/error.h>
#include <samebits/linear_logp.h>
#include <samebits/logp.h>
#include <samebits/matmul.h>
#include <samebits/plan.h>
#include <samebits/row_ops.h>
#include <samebits/version.h>
#include <samebits/view.h>
