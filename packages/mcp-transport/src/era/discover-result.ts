import { isRecord } from '@x/internal'
import type { InitializeResult } from '../session-record.ts'

/** What a server answered to `server/discover` (2026-07-28, server/discover). Unknown fields are kept. */
export interface DiscoverResult {
  readonly supportedVersions: readonly string[]
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly instructions?: string | undefined
  readonly [key: string]: unknown
}

export function isDiscoverResult(value: unknown): value is DiscoverResult {
  return (
    isRecord(value) &&
    Array.isArray(value['supportedVersions']) &&
    value['supportedVersions'].every((version) => typeof version === 'string') &&
    isRecord(value['capabilities']) &&
    (value['instructions'] === undefined || typeof value['instructions'] === 'string')
  )
}

export interface InitializeView {
  /** The version that the client asked for: it must find it in the answer. */
  readonly protocolVersion: string
  /** Names the server where it does not name itself. */
  readonly host: string
}

/** The same, as a client that knows `initialize` only must see it. Tasks do not exist there. */
export function initializeResultFrom(
  discovered: DiscoverResult,
  { protocolVersion, host }: InitializeView,
): InitializeResult {
  const { tasks: _tasks, ...capabilities } = discovered.capabilities
  const { instructions } = discovered
  return {
    protocolVersion,
    capabilities,
    serverInfo: serverInfoOf(discovered) ?? { name: host, version: '0' },
    ...(instructions === undefined ? {} : { instructions }),
  }
}

/** In `_meta` by the specification; in the body in older drafts. */
function serverInfoOf(discovered: DiscoverResult): InitializeResult['serverInfo'] | undefined {
  const meta = discovered['_meta']
  const candidates = [
    isRecord(meta) ? meta['io.modelcontextprotocol/serverInfo'] : undefined,
    discovered['serverInfo'],
  ]
  return candidates.find(isServerInfo)
}

function isServerInfo(value: unknown): value is InitializeResult['serverInfo'] {
  return (
    isRecord(value) && typeof value['name'] === 'string' && typeof value['version'] === 'string'
  )
}
