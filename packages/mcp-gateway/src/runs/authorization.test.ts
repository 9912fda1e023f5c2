import { afterEach, beforeEach, describe, expect, test } from 'vitest'

import { AgentsAtHand, type Behaviour } from '../../test/agents-at-hand.ts'
import { CLIENT_KINDS, connect } from '../../test/mcp-clients.ts'
import type { AgentCall } from '../agents/agent.ts'
import type { AgentUpdate } from '../agents/agent.ts'
import type { GatewayListener } from '../http/server.ts'
import { createGateway, type Gateway } from '../gateway.ts'

const PAGE = 'https://login.example/start?user=1'

let hasAccess: boolean
let agents: AgentsAtHand
let gateway: Gateway
let listener: GatewayListener

beforeEach(async () => {
  hasAccess = false
  agents = new AgentsAtHand({ anew: signIn(undefined), goes_on: signIn({ at: 7 }), evil, both })
  gateway = createGateway({ sources: [agents] })
  listener = await gateway.listen({ port: 0 })
})

afterEach(() => gateway.close())

/** Asks the user to sign in. After that it returns the call that it got. */
function signIn(state: unknown): Behaviour {
  return function* run({ resume, input }) {
    if (!hasAccess) yield { type: 'authorization', url: PAGE, reason: 'Sign in.', state }
    else yield { type: 'done', text: JSON.stringify({ resume: resume?.state, input }) }
  }
}

function* evil(): Iterable<AgentUpdate> {
  yield { type: 'authorization', url: 'javascript:alert(1)' }
}

function* both({ resume }: AgentCall): Iterable<AgentUpdate> {
  const questions = [
    { id: 'a', message: 'Which?' },
    { id: 'b', message: 'Look.', url: PAGE },
  ]
  yield resume
    ? { type: 'done', text: JSON.stringify(resume.answers) }
    : { type: 'asked', questions, state: {} }
}

describe.each(CLIENT_KINDS)('for a client that can open pages: %s', (kind) => {
  test.each([
    ['goes_on', { resume: { at: 7 }, input: { text: 'Buy' } }],
    ['anew', { input: { text: 'Buy' } }],
  ])('sends them there, and the run goes on or begins anew: %s', async (name, told) => {
    const visited: string[] = []
    await using client = await connect(kind, listener.url, {
      visit: (url) => {
        // The user closes the page the first time.
        hasAccess = visited.push(url) > 1
        return true
      },
    })
    const { content } = await client.callTool(name, 'Buy')
    expect(visited).toEqual([PAGE, PAGE])
    const [{ text }] = content as [{ text: string }]
    expect(JSON.parse(text)).toMatchObject(told)
    expect(agents.calls).toHaveLength(3)
  })

  test('returns that the agent stopped when the user declines to sign in', async () => {
    await using client = await connect(kind, listener.url, { visit: () => false })
    const result = await client.callTool('goes_on', 'Buy')
    expect(result).toMatchObject({ _meta: { reason: 'decline' } })
    expect(result['isError']).not.toBe(true)
    expect(agents.calls).toHaveLength(1)
  })
})

test.each(CLIENT_KINDS)('tells a client with forms only where to sign in: %s', async (kind) => {
  await using client = await connect(kind, listener.url, { answer: () => ({}) })
  const result = await client.callTool('goes_on', 'Buy')
  expect(result).toMatchObject({ isError: true, _meta: { reason: 'auth_required' } })
  expect(JSON.stringify(result['content'])).toContain(PAGE)
})

test('returns where to sign in even if the agent hangs while it deletes its state', async () => {
  Object.assign(agents, { forget: () => new Promise<void>(() => undefined) })
  await using client = await connect('v1', listener.url, { answer: () => ({}) })
  const result = await client.callTool('goes_on', 'Buy')
  expect(result).toMatchObject({ isError: true, _meta: { reason: 'auth_required' } })
})

test('does not open a URL that is not a web page', async () => {
  await using client = await connect('v2 pinned', listener.url, { visit: () => true })
  const result = await client.callTool('evil', 'Buy')
  expect(result).toMatchObject({ isError: true, _meta: { reason: 'auth_required' } })
  expect(JSON.stringify(result)).not.toContain('javascript')
})

test('shows a page among other questions as text to a client that cannot open pages', async () => {
  const asked: string[] = []
  await using client = await connect('v1', listener.url, {
    answer: (message) => {
      asked.push(message)
      return message === 'Which?' ? { answer: 'this' } : {}
    },
  })
  const { content } = await client.callTool('both', 'Buy')
  expect(asked.toSorted()).toEqual([`Look.\n${PAGE}`, 'Which?'])
  expect(JSON.stringify(content)).toContain('this')
})
