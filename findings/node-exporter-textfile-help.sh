#!/bin/bash
# node_exporter drops a series where two .prom files describe one metric in different words; its own error metric stays 0.
set -eu
source "$(dirname "$(readlink -f "$0")")/common/setup.sh"
debian prometheus-node-exporter=1.5.0-1+b6
isolate

mkdir metrics
printf '# HELP rail_gbits Bandwidth of a rail.\n# TYPE rail_gbits gauge\nrail_gbits{rail="0"} 390\n' >metrics/a.prom
printf '# HELP rail_gbits Rail bandwidth.\n# TYPE rail_gbits gauge\nrail_gbits{rail="1"} 12\n' >metrics/b.prom
prometheus-node-exporter --web.listen-address=127.0.0.1:9100 --collector.disable-defaults \
  --collector.textfile --collector.textfile.directory="$WORK/metrics" >exporter.log 2>&1 &
sleep 2
exec 3<>/dev/tcp/127.0.0.1/9100
printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
cat <&3 >answer.txt
grep -E '^(HTTP|rail_gbits|node_textfile_scrape_error)' answer.txt

finding \
  'both rails, or the rail of b.prom is missing and node_textfile_scrape_error is 1' \
  'HTTP 200, 1 of 2 rails, node_textfile_scrape_error 0' \
  "HTTP $(head -1 answer.txt | cut -d ' ' -f 2), $(grep -c '^rail_gbits' answer.txt) of 2 rails, $(grep '^node_textfile_scrape_error' answer.txt)"
