from __future__ import annotations

import snug
from snug.solve import placement


def main() -> None:
    run: dict[str, object] = dict(model="bert-tiny", memory="1GiB")
    plan = snug.plan(run)
    peak: int = plan.planned_peak_bytes
    rows: list[dict[str, object]] = plan.price_list
    try:
        summary = snug.train(run, train_file=[{"text": "a", "label": "b"}], output_dir="out", on_update=lambda update: print(update["loss"]))
    except snug.DoesNotFit as refusal:
        smallest = refusal.smallest_bytes
        if smallest is not None:
            print(smallest + 1, refusal.ways[0].keys["memory"], refusal.proof.upper())
        raise
    print(peak, rows, summary["steps"], placement({"lower": [0], "upper": [1], "size": [8]})["height"])
    for prediction in snug.predict(model="out/last", test_file="x.jsonl"):
        print(prediction["label"])


@snug.network
def net(b: snug.NetworkBuilder) -> None:
    x = b.input("x", [4])
    y = snug.layers.linear("out", snug.ops.relu(x * 2.0 + 1), 1)
    b.output("y", y)
    b.minimize(snug.layers.mean_squared_error(y, b.input("t", [1])))


def train() -> float:
    with snug.Session(net, batch_rows=4, memory="1MiB") as session:
        return session.step({"x": [[1.0] * 4] * 4, "t": [[1.0]] * 4}).loss + len(session.tensors())


if __name__ == "__main__":
    main()
