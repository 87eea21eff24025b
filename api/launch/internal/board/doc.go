// Package board has what the boards of api/launch have in common, whoever carries them:
// the errors by which ranks tell each other what went wrong, and what keys may be.
package board
