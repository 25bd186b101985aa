from railgauge.cli import main

main()
