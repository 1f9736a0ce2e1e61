package core

// Await exports Watcher.await.
var Await = (*Watcher).await
