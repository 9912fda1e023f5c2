import { planOptions } from '../../test/settings.ts'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { expect, test } from 'vitest'

import type { Principal } from '../internal/principal.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import type { CheckedArguments } from './plan.ts'
import { type CachedCall, cacheKeyOf, ResultCache } from './result-cache.ts'
import { ToolPlanner } from './plan.ts'

const ada: Principal = { id: 'ada', scopes: ['*'], isAnonymous: false, claims: {} }
const hello: CheckedArguments = {
  input: { kind: 'message', text: 'Hi' },
  files: [],
  resume: undefined,
}
const answer: CallToolResult = {
  content: [{ type: 'text', text: 'Hello' }],
  structuredContent: { a: 1 },
}

function callOf(over: Partial<CachedCall> = {}): CachedCall {
  const agent = { id: 'a', name: 'a', description: '', skills: [], health: 'healthy' } as const
  const [tool] = new ToolPlanner(planOptions({ overrides: { a: { cacheTtlMs: 1000 } } })).plan([
    agent,
  ]).tools
  return { tool: tool!, principal: ada, arguments: hello, ...over }
}

function cacheAt(clock: { now: number } = { now: 0 }, isPublic = false): ResultCache {
  const { records } = new MemoryGatewayStore({ now: () => clock.now })
  const onWarning = (message: string): never => {
    throw new Error(message)
  }
  return new ResultCache(records, { isPublic, onWarning })
}

const keyOf = (call: CachedCall): string | undefined => cacheKeyOf(call, { isPublic: false })

test('returns a stored result until its time is over', async () => {
  const clock = { now: 0 }
  const cache = cacheAt(clock)
  await cache.put(callOf(), answer)
  expect(await cache.get(callOf())).toEqual(answer)
  clock.now = 1000
  expect(await cache.get(callOf())).toBeUndefined()
})

test('returns a stored result to the next token of the same caller', () => {
  const withToken = (jti: string, exp: number) => {
    return keyOf(callOf({ principal: { ...ada, claims: { org: 'a', jti, exp } } }))
  }
  expect(withToken('2', 2000)).toBe(withToken('1', 1000))
})

test('stores nothing for a tool without the setting', async () => {
  const cache = cacheAt()
  const call = { ...callOf(), tool: { ...callOf().tool, cacheTtlMs: undefined } }
  await cache.put(call, answer)
  expect(await cache.get(call)).toBeUndefined()
})

test.each<[string, Partial<CachedCall>]>([
  ['another caller', { principal: { ...ada, id: 'bob' } }],
  ['the same caller with fewer scopes', { principal: { ...ada, scopes: [] } }],
  ['the same caller in another organization', { principal: { ...ada, claims: { org: 'b' } } }],
  ['a caller without a name, but with the same id', { principal: { ...ada, isAnonymous: true } }],
  [
    'a call with other arguments',
    { arguments: { ...hello, input: { kind: 'message', text: 'Ho' } } },
  ],
  [
    'a call with the same text as an argument',
    { arguments: { ...hello, input: { kind: 'arguments', value: { text: 'Hi' } } } },
  ],
  ['a call with context', { arguments: { ...hello, context: { tenant: 'bob' } } }],
  ['a call in a conversation with a name', { arguments: { ...hello, conversation: 'trip' } }],
  [
    'a call of a tool that changed',
    { tool: { ...callOf().tool, definition: { ...callOf().tool.definition, description: 'new' } } },
  ],
  [
    'a call of another agent',
    { tool: { ...callOf().tool, agent: { ...callOf().tool.agent, id: 'b' } } },
  ],
])('does not return a stored result to %s', async (_who, other) => {
  const cache = cacheAt({ now: 0 }, true)
  await cache.put(callOf(), answer)
  expect(await cache.get(callOf(other))).toBeUndefined()
})

test('ignores the order of arguments, and the health of the agent', () => {
  const key = (value: Record<string, unknown>) =>
    keyOf(callOf({ arguments: { ...hello, input: { kind: 'arguments', value } } }))
  expect(key({ a: 1, b: { c: 2, d: 3 } })).toBe(key({ b: { d: 3, c: 2 }, a: 1 }))
  const { tool } = callOf()
  const degraded = { ...tool, definition: { ...tool.definition, _meta: { status: 'degraded' } } }
  expect(keyOf(callOf({ tool: degraded }))).toBe(keyOf(callOf()))
})

test('shows nothing of the caller in a key', () => {
  expect(keyOf(callOf())).toMatch(/^result\/[0-9a-f]{64}$/)
})

test('shares results among callers without a name only in a gateway without auth', () => {
  const principal = { ...ada, isAnonymous: true }
  expect(cacheKeyOf(callOf({ principal }), { isPublic: false })).toBeUndefined()
  expect(cacheKeyOf(callOf({ principal }), { isPublic: true })).toBeDefined()
})

test.each<[string, CheckedArguments]>([
  ['with files', { ...hello, files: ['artifact://a'] }],
  ['with an answer', { ...hello, resume: { run: 'r', answers: {} } }],
  ['without input', { ...hello, input: undefined }],
])('does not store results of calls %s', (_which, args) => {
  expect(keyOf(callOf({ arguments: args }))).toBeUndefined()
})

test.each<[string, CallToolResult]>([
  ['an error', { ...answer, isError: true }],
  ['a question as text', { content: [], structuredContent: { status: 'needs_input' } }],
  ['a link to a file', { content: [{ type: 'resource_link', uri: 'artifact://a', name: 'a' }] }],
  ['an image', { content: [{ type: 'image', data: '', mimeType: 'image/png' }] }],
  ['a sign-in', { ...answer, _meta: { reason: 'auth_required' } }],
  ['a long text', { content: [{ type: 'text', text: 'x'.repeat(300_000) }] }],
])('does not store %s', async (_what, result) => {
  const cache = cacheAt()
  await cache.put(callOf(), result)
  expect(await cache.get(callOf())).toBeUndefined()
})

test('finds and stores nothing while the store is away', async () => {
  const warnings: string[] = []
  const away = () => Promise.reject(new Error('away'))
  const records = {
    get: away,
    put: away,
    touch: away,
    take: away,
    delete: away,
    list: away,
    count: away,
  }
  const onWarning = (message: string): void => void warnings.push(message)
  const cache = new ResultCache(records, { isPublic: false, onWarning })
  await cache.put(callOf(), answer)
  expect(await cache.get(callOf())).toBeUndefined()
  expect(warnings).toHaveLength(2)
})
