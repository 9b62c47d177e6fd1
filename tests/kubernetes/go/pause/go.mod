module acker/tests/kubernetes/pause

go 1.26.0
