module example.org/crashtest

go 1.21
