import type { Agent, AgentCall, AgentSource, AgentUpdate } from '@x/mcp-gateway'
import { a2aSource, type A2aCard, type A2aSourceOptions } from '../src/source.ts'
import { type A2aAgent, type AgentTurn, textPart } from './a2a-agent.ts'
import { agentCallOf, principalNamed } from '../../mcp-gateway/test/scripted-source.ts'

/** A source that looks at one agent, and what it told of it. */
export interface Started extends AsyncDisposable {
  readonly source: AgentSource
  readonly agents: readonly Agent[]
  readonly told: readonly string[]
  readonly warnings: readonly unknown[]
  readonly agentId: string
}

export async function started(
  agent: Pick<A2aAgent, 'origin' | 'url'>,
  { card, ...options }: Partial<A2aSourceOptions> & { readonly card?: Partial<A2aCard> } = {},
): Promise<Started> {
  const told: string[] = []
  const agents: Agent[] = []
  const warnings: unknown[] = []
  const source = a2aSource({
    cards: [{ url: agent.url, ...card }],
    trustedOrigins: [agent.origin],
    pollMs: 1,
    ...options,
  })
  await source.start({
    found: (found) => {
      agents.push(found)
      told.push(`found ${found.name}`)
    },
    seen: () => told.push('seen'),
    gone: () => told.push('gone'),
    unreachable: () => told.push('unreachable'),
    warned: (message, cause) => warnings.push(message, cause),
  })
  const agentId = `a2a:${agent.origin}`
  return { source, agents, told, warnings, agentId, [Symbol.asyncDispose]: () => source.close() }
}

export function callOf(over: Partial<AgentCall> & { readonly agentId: string }): AgentCall {
  return agentCallOf({
    skillId: 'forecast',
    input: { kind: 'message', text: 'Rain?', files: [] },
    principal: { ...principalNamed('ada'), claims: { token: 'secret' } },
    ...over,
  })
}

export async function all(updates: AsyncIterable<AgentUpdate>): Promise<readonly AgentUpdate[]> {
  const list: AgentUpdate[] = []
  for await (const update of updates) list.push(update)
  return list
}

/** What a caller would read. */
export function textIn(updates: readonly AgentUpdate[]): string {
  const last = updates.at(-1)
  if (last?.type === 'done' && last.text !== undefined) return last.text
  return updates.map((update) => (update.type === 'text' ? update.text : '')).join('')
}

export function rain(turn: AgentTurn): void {
  turn.begin()
  turn.status(2, 'Looking at the sky')
  turn.artifact('a', [textPart('It will ')], { lastChunk: false })
  turn.artifact('a', [textPart('rain.')], { append: true })
  turn.status(3)
}
