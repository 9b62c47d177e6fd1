// Package integration tries the client with libraries of others: a module of its own, so that the client needs none.
package integration
