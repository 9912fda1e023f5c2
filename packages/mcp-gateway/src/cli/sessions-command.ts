import { CommandError } from '@x/internal/command-line'
import { storeFrom } from './configured-store.ts'
import type { GatewayConfig } from './gateway-config.ts'
import { SessionRecords } from '../mcp/replicas/session-records.ts'
import type { ListedSession } from '../mcp/replicas/session-records.ts'
import { readConfigFile } from './config-file.ts'
import type { ConfigFile } from './config-file.ts'
import { printable } from './plan-report.ts'

/** Returns the sessions of all gateways that share the store of a file, as a table or as JSON. */
export async function listSessions(file: ConfigFile, json: boolean): Promise<string> {
  const { config } = await readConfigFile(file)
  const sessions = (await sessionsOf(config)).map(shownSession)
  return json ? `${JSON.stringify(sessions)}\n` : tableOf(sessions)
}

interface ShownSession {
  readonly session: string
  readonly caller: string
  readonly client: string
  readonly version: string
  readonly revision: string
  /** ISO 8601 */
  readonly startedAt: string
}

/** @throws CommandError where no other process can see them */
async function sessionsOf({ store: config }: GatewayConfig): Promise<readonly ListedSession[]> {
  if (config.type !== 'redis') {
    const what = `With store.type ${config.type} only the gateway itself knows its sessions`
    throw new CommandError(`${what}: see mcp_gateway_sessions of its metrics`)
  }
  const store = await storeFrom(config)
  try {
    return await new SessionRecords(store.values).all()
  } finally {
    await store.close()
  }
}

const SHOWN_DIGITS = 8

function shownSession({ name, record }: ListedSession): ShownSession {
  const [caller = '', session = ''] = name.split(':')
  const { protocolVersion, clientInfo } = record.handshake
  return {
    session: session.slice(0, SHOWN_DIGITS),
    caller: caller.slice(0, SHOWN_DIGITS),
    client: textOf(clientInfo['name']),
    version: textOf(clientInfo['version']),
    revision: textOf(protocolVersion),
    startedAt: new Date(record.createdAt).toISOString(),
  }
}

/** Of what a client says of itself. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? printable(value).slice(0, 64) : ''
}

function tableOf(sessions: readonly ShownSession[]): string {
  const title = sessions.length === 1 ? '1 session' : `${sessions.length} sessions`
  const lines = sessions
    .toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1))
    .map(({ session, caller, client, version, revision, startedAt }) => {
      return `  ${session}  of ${caller}  ${startedAt}  ${revision}  ${client} ${version}`.trimEnd()
    })
  return `${[title, ...lines].join('\n')}\n`
}
