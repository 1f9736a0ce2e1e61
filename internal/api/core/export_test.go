package core

// Await is await.
var Await = (*Watcher).await
