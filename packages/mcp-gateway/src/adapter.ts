// Everything exported here is public API for packages that add a store, a source of agents or an authenticator.
import './runtime-check.ts' // stays the first import
export type {
  AuthContext,
  AuthSection,
  FileSection,
  SectionContext,
  SourceContext,
  SourceSection,
  StoreSection,
} from './cli/file-sections.ts'
export { credentialHeaders, headersNow } from './agents/langgraph-server.ts'
export { assertGatewayOptions, type Complete } from './errors.ts'
export * as setting from './internal/setting-kinds.ts'
export {
  authenticateToken,
  challengeResponse,
  ProtectedResource,
  publicDocument,
  secureUrlFrom,
} from './http/auth/authenticator.ts'
export type {
  Challenge,
  ChallengeExtras,
  ProtectedResourceOptions,
  Verdict,
} from './http/auth/authenticator.ts'
export { pathEnds, wellKnownPaths } from './http/public-url.ts'
export { readWebBody } from './http/web-edge.ts'
export { abortable, pause } from './internal/timers.ts'
export { originsCheck, readBounded } from './internal/guarded-fetch.ts'
export { valueFromJson } from './internal/text.ts'
export { systemClock } from './internal/clock.ts'
export type { BodyText } from './mcp/reply.ts'
export { fetchForUser } from './internal/user-credentials.ts'
export { subnetOf } from './internal/principal.ts'
export { randomId } from './internal/random-hex.ts'
export { FileBlobs, MeasuredBytes } from './store/blobs.ts'
export { toJsonText } from './store/gateway-store.ts'
export { formatEventId, parseEventId, parseFoundLog, toLogTag } from './store/local-logs.ts'
export type { EventId } from './store/local-logs.ts'
export { warnAboutStore } from './store/memory-store.ts'
export { TokenBuckets } from './store/token-buckets.ts'
