import { expect, test } from 'vitest'

import { AgentsAtHand, type Behaviour } from '../../test/agents-at-hand.ts'
import { CLIENT_KINDS, connect } from '../../test/mcp-clients.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { image } from '../../test/served-files.ts'
import { post, toolCall } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import type { CallEnd, ObservedCall } from '../internal/observer.ts'

test.each(CLIENT_KINDS)('reports calls of a client (%s) from start to end', async (kind) => {
  const picture = { name: 'a.png', data: image(10) }
  const agents = new AgentsAtHand({
    support: () => [
      { type: 'file', file: picture },
      { type: 'done', text: 'fine' },
    ],
    broken: () => [{ type: 'failed', reason: 'It is broken' }],
  })
  const started: ObservedCall[] = []
  const ended: (readonly [ObservedCall, CallEnd])[] = []
  const sessions: string[] = []
  const observer = {
    callStarted: (call: ObservedCall) => {
      started.push(call)
      return { traceparent: 'ours' }
    },
    callEnded: (call: ObservedCall, end: CallEnd) => void ended.push([call, end]),
    sessionOpened: () => void sessions.push('opened'),
    sessionClosed: ({ reason }: { readonly reason: string }) => void sessions.push(reason),
  }
  const http = { metricsPath: '/metrics' }
  await using gateway = createGateway({ sources: [agents], observer, http })
  await gateway.registry.start()
  const { url } = await gateway.listen({ port: 0 })
  const hasSession = kind === 'v1' || kind === 'v2 legacy'
  {
    await using client = await connect(kind, url)
    await client.callTool('support', 'hello')
    await client.callTool('broken', 'hello')
    await client.callTool('nobody', 'hello').catch(() => {})
  }
  expect(ended.map(([call]) => call)).toEqual(started)
  const era = hasSession ? 'legacy' : 'modern'
  expect(started[0]).toMatchObject({ tool: 'support', isKnown: true, principal: 'mcp_user', era })
  const outcomes = ended.map(([{ tool }, { outcome }]) => `${tool} ${outcome}`)
  expect(outcomes.slice(0, 2)).toEqual(['support ok', 'broken agent_failed'])
  expect(outcomes.slice(2).every((each) => each === 'nobody unknown_tool')).toBe(true)
  expect(ended[0]?.[1]).toMatchObject({ requestBytes: 19, resultBytes: 14 })
  expect(agents.calls[0]?.trace).toEqual({ traceparent: 'ours' })
  const metrics = await (await fetch(new URL('/metrics', url))).text()
  expect(metrics).toContain('mcp_gateway_calls_total{tool="support",outcome="ok"} 1')
  await gateway.close()
  expect(sessions.length).toBe(hasSession ? 2 : 0)
})

test.each(CLIENT_KINDS)('reports each round of questions with its run: %s', async (kind) => {
  const ask: Behaviour = ({ resume }) =>
    resume
      ? [{ type: 'done', text: 'fine' }]
      : [{ type: 'asked', questions: [{ id: 'size', message: 'Which size?' }], state: {} }]
  const agents = new AgentsAtHand({ ask })
  const ended: CallEnd[] = []
  const observer = { callEnded: (_: ObservedCall, end: CallEnd) => void ended.push(end) }
  await using gateway = createGateway({ sources: [agents], observer })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect(kind, url, { answer: () => ({ answer: 'large' }) })
  await client.callTool('ask', 'hello')
  const runId = agents.calls[0]?.runId
  expect(ended.map((end) => ({ outcome: end.outcome, runId: end.runId }))).toEqual([
    { outcome: 'asked', runId },
    { outcome: 'ok', runId },
  ])
})

test('reports a question to a client without forms as asked, and not as done', async () => {
  const questions = [{ id: 'size', message: 'Which size?' }]
  const agents = new AgentsAtHand({ ask: () => [{ type: 'asked', questions, state: {} }] })
  const ended: string[] = []
  const observer = { callEnded: (_: ObservedCall, end: CallEnd) => void ended.push(end.outcome) }
  await using gateway = createGateway({ sources: [agents], observer })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  await expect(client.callTool('ask', 'hello')).resolves.toMatchObject({
    structuredContent: { status: 'needs_input' },
  })
  expect(ended).toEqual(['asked'])
})

test('reports a call that its caller may not make', async () => {
  const told: unknown[] = []
  const observer = {
    callEnded: (call: ObservedCall, end: CallEnd) => void told.push({ ...call, ...end }),
  }
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ support: () => [{ type: 'done' }] })],
    auth: bearerAuth({ ci: { token: 'a-token-of-some-length', scopes: [] } }),
    observer,
  })
  await gateway.registry.start()
  const call = toolCall(1, 'support', 'Hello')
  const response = await gateway.fetch(
    post(call, { authorization: 'Bearer a-token-of-some-length' }),
  )
  expect(response.status).toBe(403)
  const outcome = 'insufficient_scope'
  expect(told).toMatchObject([{ tool: 'support', principal: 'ci', era: 'legacy', outcome }])
})
