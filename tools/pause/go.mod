module tokenworks.dev/tools/pause

go 1.26.6
