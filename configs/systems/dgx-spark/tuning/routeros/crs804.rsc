# RouterOS settings of the MikroTik CRS804-4DDQ: one line for each half of a 400G port, which the
# breakout cable takes to a port of a DGX Spark. The source states the settings, not the ports:
# those here are placeholders (`/interface ethernet print`).
#
# auto-negotiation=no, speed: with it the link may come up at 100G. Stated in the source.
# fec-mode=fec91: both ends must correct errors the same way, or the link stays down. Stated.
# mtu=9000: jumbo frames on every hop. Stated for the nodes; "its internal packet size limit" is
# l2mtu, for which the source has no number. 9216 leaves room for every header.
/interface ethernet
set [find where name="qsfp56-dd-1-1"] auto-negotiation=no speed=200G-baseCR4 fec-mode=fec91 mtu=9000 l2mtu=9216
set [find where name="qsfp56-dd-1-5"] auto-negotiation=no speed=200G-baseCR4 fec-mode=fec91 mtu=9000 l2mtu=9216
set [find where name="qsfp56-dd-2-1"] auto-negotiation=no speed=200G-baseCR4 fec-mode=fec91 mtu=9000 l2mtu=9216
set [find where name="qsfp56-dd-2-5"] auto-negotiation=no speed=200G-baseCR4 fec-mode=fec91 mtu=9000 l2mtu=9216
