package job

import "testing"

func TestAdd(t *testing.T)             { runDocument(t, "add.txt") }
func TestHTTPPayloads(t *testing.T)    { runDocument(t, "http.txt") }
func TestHTTPRefusals(t *testing.T)    { runDocument(t, "http-refused.txt") }
func TestOwnRules(t *testing.T)        { runDocument(t, "own-rules.txt") }
func TestWebhookDelivery(t *testing.T) { runDocument(t, "webhook.txt") }
func TestRefusals(t *testing.T)        { runDocument(t, "refuse.txt") }
