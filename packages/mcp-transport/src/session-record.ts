import { isRecord } from '@x/internal'
import { isDiscoverResult } from './era/discover-result.ts'
import type { DiscoverResult } from './era/discover-result.ts'
import { isToolHeaderMap } from './modern/tool-headers.ts'
import type { ToolHeaderMap } from './modern/tool-headers.ts'
import { isSessionId, isVisibleAscii } from './session-id.ts'

/** The MCP revisions with sessions (`legacy`), or the stateless one of 2026-07-28 (`modern`). */
export type Era = 'legacy' | 'modern'

/** What a server answered to `initialize`. Fields that we do not know are kept. */
export interface InitializeResult {
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly serverInfo: { readonly name: string; readonly version: string }
  readonly instructions?: string | undefined
  readonly [key: string]: unknown
}

/**
 * What is needed to go on with a server without a handshake. JSON; the field names are public. As
 * large as what the server says of itself: a store that has a limit must say so.
 *
 * A record belongs to one server URL and one principal and is never used for another. After a session
 * was lost, what belonged to the session is gone and the rest stays: the era verdict outlives it.
 */
export interface SessionRecord {
  /** Format of the record. A record with another number is left alone and counts as none. */
  readonly v: 1
  /** The endpoint, without credentials; a query is replaced by a digest, because it may hold a token. */
  readonly serverUrl: string
  /** Whoever the credentials speak for: a name given by the caller, never derived from a token. */
  readonly principal?: string | undefined
  readonly era: Era
  /** When the era was found out, ISO 8601. */
  readonly eraCheckedAt: string
  /** Counts the sessions with this server, from 1. */
  readonly epoch: number
  /** Value of the `Mcp-Session-Id` header, opaque to us. Servers without sessions give none. */
  readonly sessionId?: string | undefined
  /** As negotiated; cannot be learned from later answers, and is needed in every request. */
  readonly protocolVersion?: string | undefined
  readonly initializeResult?: InitializeResult | undefined
  /** What a modern server answered to `server/discover`. */
  readonly discoverResult?: DiscoverResult | undefined
  /** Of a modern server: which arguments of its tools are repeated as headers, by tool name. */
  readonly toolHeaders?: ToolHeaderMap | undefined
  /** Digest of the client's own `initialize` parameters: the server was told *those* capabilities. */
  readonly initializeParamsHash?: string | undefined
  /** Cursor of the listening stream, to receive what was sent while nobody listened. */
  readonly lastEventId?: string | undefined
  /** ISO 8601. */
  readonly createdAt: string
  /** ISO 8601. */
  readonly updatedAt: string
}

/**
 * Checks what came out of a store. Anything that is not a record of this format gives `undefined`:
 * a bad record counts as none. Unknown fields are kept.
 */
export function sessionRecordFrom(value: unknown): SessionRecord | undefined {
  return isSessionRecord(value) ? value : undefined
}

function isSessionRecord(value: unknown): value is SessionRecord {
  return (
    isRecord(value) &&
    value['v'] === 1 &&
    typeof value['serverUrl'] === 'string' &&
    (value['era'] === 'legacy' || value['era'] === 'modern') &&
    DATES.every((key) => isDate(value[key])) &&
    Number.isSafeInteger(value['epoch']) &&
    (value['sessionId'] === undefined || isSessionId(value['sessionId'])) &&
    (value['protocolVersion'] === undefined || isVisibleAscii(value['protocolVersion'])) &&
    (value['initializeResult'] === undefined || isInitializeResult(value['initializeResult'])) &&
    (value['discoverResult'] === undefined || isDiscoverResult(value['discoverResult'])) &&
    (value['toolHeaders'] === undefined || isToolHeaderMap(value['toolHeaders'])) &&
    OPTIONAL_STRINGS.every((key) => value[key] === undefined || typeof value[key] === 'string')
  )
}

/** Whether a value has what the protocol requires of an InitializeResult. */
export function isInitializeResult(value: unknown): value is InitializeResult {
  return (
    isRecord(value) &&
    typeof value['protocolVersion'] === 'string' &&
    isRecord(value['capabilities']) &&
    isRecord(value['serverInfo']) &&
    (value['instructions'] === undefined || typeof value['instructions'] === 'string')
  )
}

const DATES = ['eraCheckedAt', 'createdAt', 'updatedAt']
const OPTIONAL_STRINGS = ['principal', 'initializeParamsHash', 'lastEventId']

function isDate(value: unknown): boolean {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value))
}
