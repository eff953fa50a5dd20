"""What Harken costs, beside a reference in the same run; `make bench` writes results.md."""
