"""The raw scores as CSV: one line for each (table, split, method), so that nothing is computed twice."""
import csv
from pathlib import Path

COLUMNS = ["table", "split", "method", "nll", "crps", "error", "coverage", "width", "seconds", "chosen"]


class Scores:
    """Reads what is there and appends what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, str]] = []
        if path.exists():
            with path.open(newline="") as file:
                self.rows = list(csv.DictReader(file))

    def has(self, table: str, split: int, method: str) -> bool:
        return any((row["table"], row["split"], row["method"]) == (table, str(split), method) for row in self.rows)

    def add(self, table: str, split: int, method: str, seconds: float, scores: dict[str, float], chosen: str = "") -> None:
        numbers = {name: f"{value:.6g}" for name, value in scores.items()}
        row = {"table": table, "split": str(split), "method": method, **numbers, "seconds": f"{seconds:.1f}", "chosen": chosen}
        self.rows.append(row)
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
