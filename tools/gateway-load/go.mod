module tokenworks.dev/tools/gateway-load

go 1.26.6
