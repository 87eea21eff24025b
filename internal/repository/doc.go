// Package repository holds the rules of this repository that a linter does not know, as
// tests. CONTRIBUTING.md gives them in words. The tests run in the root of the module.
//
//   - rooms_test.go: how files and types are laid out
//   - style_test.go, phrases_test.go: comments and documents
//   - promise_test.go, weight_test.go, enums_test.go: what a program that imports efactor sees
//   - specmap_test.go, features_test.go, exampled_test.go: what docs/ claims has code and tests
//   - threat_test.go, reliability_test.go: each promise names the test that holds it
package repository
