import type { GatewayConfig } from '../config/gateway-config.ts'
import type { ListedSession } from '../protocol/replicas/session-records.ts'
import { CommandError } from './command-error.ts'
import type { Command } from './command.ts'
import { DEFAULT_FILE } from './default-file.ts'
import { atMost, parseOptions } from './parse-options.ts'
import { printable } from './plan-report.ts'

export const sessionsCommand: Command = {
  help: `Usage: mcp-gateway sessions [file] [options]

Lists the sessions that clients have with the gateways of a file (default: ${DEFAULT_FILE}): what
the client calls itself, the revision that was agreed on, and since when. Sessions and callers are
shown by the first digits of a hash: ids of sessions are in no store. Only gateways that share a
store in Redis can be asked so; one on its own keeps its sessions to itself, and their number in
its metrics.

Options
  --json               [{"session", "caller", "client", "version", "revision", "startedAt"}]
  --help               this text
`,
  async run({ args, env, stdout }) {
    const { values, positionals } = parseOptions('sessions', args, {
      json: { type: 'boolean', default: false },
    })
    atMost('sessions', positionals, 1)
    const [file = DEFAULT_FILE] = positionals
    const { readConfigFile } = await import('./config-file.ts')
    const { config } = await readConfigFile({ file, env, flags: [] })
    const sessions = (await sessionsOf(config)).map(shownSession)
    stdout.write(values.json ? `${JSON.stringify(sessions)}\n` : tableOf(sessions))
  },
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
  const { storeFrom } = await import('../config/configured-store.ts')
  const { SessionRecords } = await import('../protocol/replicas/session-records.ts')
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
