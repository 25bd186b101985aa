"""iperf2 at 0.9 Gb/s whose rows are multiplied: `fake_iperf.py FACTOR iperf ARGUMENTS...`."""

import re
import subprocess
import sys

ROW = re.compile(r"([0-9]+) KBytes( +)([0-9]+) Kbits/sec")


def main() -> int:
    factor, argv = int(sys.argv[1]), sys.argv[2:]
    if "-c" in argv:
        argv += ["-b", "900m"]
    answer = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)

    def multiplied(row: "re.Match[str]") -> str:
        return f"{int(row[1]) * factor} KBytes{row[2]}{int(row[3]) * factor} Kbits/sec"

    sys.stdout.write(ROW.sub(multiplied, answer.stdout))
    return answer.returncode


if __name__ == "__main__":
    sys.exit(main())
