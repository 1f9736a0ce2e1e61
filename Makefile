# Short names for the commands in docs/development.md.
.PHONY: build test generate lint fix ci demo

build:
	go build ./...

test:
	go test ./...

generate:
	go tool -modfile=tools/go.mod buf generate

lint:
	go tool -modfile=tools/lint/go.mod golangci-lint run

fix:
	go tool -modfile=tools/go.mod buf format --write
	go tool -modfile=tools/lint/go.mod golangci-lint run --fix

ci:
	.ci/run

demo:
	go run ./cmd/service demo
