// Everything exported here is public API for packages that add a store, a source of agents or an authenticator.
import './runtime-check.ts' // stays the first import
export { formatEventId, parseEventId } from './store/event-id.ts'
export type { EventId } from './store/event-id.ts'
export { FileBlobs } from './store/file-blobs.ts'
export { toJsonText } from './store/json-text.ts'
export { parseFoundLog, toLogTag } from './store/local-logs.ts'
export { MeasuredBytes } from './store/measured-bytes.ts'
export { isRandomId, randomId } from './store/random-id.ts'
export { TokenBuckets } from './store/token-buckets.ts'
