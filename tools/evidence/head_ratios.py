"""What the heads' medians are compared in."""

BOUNDS = {"recompute": "four", "saved P": "three"}  # bare products: logits are made twice, or once


def over(forward: dict[str, float], step: dict[str, float]) -> dict[str, dict[str, float]]:
    """The time of samebits over that of each other, and over the bare products that a step cannot do without:
    three with P saved, four with logits made twice; as a sum of products timed alone, and timed in a row.

    By the form of samebits, then the other's name. What was not measured has no ratio.
    """

    def divided(times: dict[str, float], ours: str) -> dict[str, float]:
        mine = times.get(ours)
        return {
            name: round(mine / time, 3)
            for name, time in times.items()
            if mine and not name.startswith("samebits")
        }

    others = {name: time for name, time in step.items() if not name.startswith("bare product")}
    found = {"forward": divided(forward, "samebits")}
    for form, count in BOUNDS.items():
        bounds = {
            f"{count} bare products": _sum_alone(step, count),
            f"{count} bare products in a row": step.get(f"bare products: {count} in a row"),
        }
        measured = {name: time for name, time in bounds.items() if time}
        found[form] = divided(others | measured, f"samebits, {form}")
    return found


def _sum_alone(step: dict[str, float], count: str) -> float | None:
    """Of the products timed alone; None unless all of them were."""
    products = [time for name, time in step.items() if name.startswith("bare product: ")]
    if len(products) < 3:
        return None
    return sum(products) + (step["bare product: logits"] if count == "four" else 0.0)
