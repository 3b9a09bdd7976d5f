#include "cli/app.h"

int main(int argc, char** argv) { return samebits::cli::run(argc, argv); }
