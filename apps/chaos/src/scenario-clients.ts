// Clients, stores and helpers that the scenarios share.
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpClient, McpClientError } from '@x/mcp-client'
import { SessionInfo, StreamableHttpTransport, TransportError } from '@x/mcp-transport'

/** A client of either kind, with the one method that most scenarios need. */
export interface ToolCaller extends AsyncDisposable {
  /** Returns the text of the result. */
  callTool(name: string, args?: Record<string, unknown>): Promise<string>
}

/** `sdk` is the SDK's own `Client` on a transport that replaces a lost session. */
export type ClientKind = 'ours' | 'sdk'
export const clientKinds: readonly ClientKind[] = ['ours', 'sdk']

/** Connects a client of this kind. It keeps its session in `sessionInfo`. */
export async function connect(
  kind: ClientKind,
  url: string,
  sessionInfo: SessionInfo = new SessionInfo(),
): Promise<ToolCaller> {
  if (kind === 'ours') {
    const sessionInfoFactory = { createSession: () => sessionInfo }
    const client = new McpClient({ url }, { sessionInfoFactory })
    return {
      callTool: async (name, args) => textOf(await client.callTool(name, args)),
      [Symbol.asyncDispose]: () => client.dispose(),
    }
  }
  const client = new Client({ name: 'chaos', version: '1.0.0' })
  const onSessionLost = 'reinitialize'
  await client.connect(new StreamableHttpTransport(url, { sessionInfo, onSessionLost }))
  return {
    callTool: async (name, args = {}) => textOf(await client.callTool({ name, arguments: args })),
    [Symbol.asyncDispose]: () => client.close(),
  }
}

/** A store that outlives a client: two clients with the same store stand for two processes. */
export function durableStore(overrides: Partial<SessionInfo> = {}): SessionInfo {
  return Object.assign(new SessionInfo(), { durable: true }, overrides)
}

export function textOf(result: object): string {
  const content: unknown = 'content' in result ? result.content : undefined
  return Array.isArray(content) ? content.map(({ text }) => String(text)).join('\n') : ''
}

/** Outcome that the client reports for a call: `executed` for a result, else the one in its error. */
export async function outcomeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call
    return 'executed'
  } catch (error) {
    if (McpClientError.is(error)) return error.outcome ?? 'no outcome'
    const data: unknown = error instanceof Error && 'data' in error ? error.data : undefined
    if (TransportError.is(data)) return data.outcome
    throw error
  }
}

/** Makes `count` calls at once, and checks that the client reports each as unknown. */
export async function expectUnknown(
  count: number,
  call: () => Promise<unknown>,
  when: string,
): Promise<void> {
  const outcomes = await Promise.all(Array.from({ length: count }, () => outcomeOf(call())))
  assert.ok(
    outcomes.every((one) => one === 'unknown'),
    `${when}: reported as ${outcomes.join()}`,
  )
}

/** Waits for a state that no event announces. */
export async function eventually(isTrue: () => boolean, message: string): Promise<void> {
  for (let waited = 0; !isTrue(); waited += 5) {
    assert.ok(waited < 15_000, message)
    await sleep(5)
  }
}
