import { deferred } from '@x/mcp-testing'
import { beforeAll, expect, test } from 'vitest'

import { whenSchemasChecked } from '../src/agents/schemas.ts'
import type { GatewayOptions } from '../src/options.ts'
import { listAll } from '../src/store/gateway-store.ts'
import { settled } from './manual-clock.ts'
import { request, send, type Fetch, type Json } from './task-requests.ts'
import { twoReplicas } from './two-replicas.ts'

// To load the library takes longer than `settled()` waits.
beforeAll(whenSchemasChecked)

/** Callers are named by their token. The token `nobody` is that of a caller without a name. */
function conversing(runs: GatewayOptions['runs'] = {}, tools?: GatewayOptions['tools']) {
  const world = twoReplicas({
    ...(tools && { tools }),
    runs: { mode: 'thread', ...runs },
    auth: {
      authenticate: async ({ headers }: Request) => {
        const id = headers.get('authorization')?.slice(7) ?? ''
        return { id, scopes: ['*'], isAnonymous: id === 'nobody', claims: {} }
      },
    },
  })
  const threads = (): readonly unknown[] => world.agents.calls.map(({ thread }) => thread)
  return { ...world, threads }
}

/** A client without tasks and forms. */
function clientOf(fetch: Fetch, token = 'ada') {
  const call = async (name: string, args: Json): Promise<Json | undefined> => {
    const capabilities = { 'io.modelcontextprotocol/clientCapabilities': {} }
    const params = { name, arguments: args, _meta: capabilities }
    return (await send(fetch, request('tools/call', params, { extensions: {}, token }))).result
  }
  return {
    call,
    say: (conversation?: unknown, tool = 'echo') => call(tool, { message: 'Hi', conversation }),
    list: async (): Promise<unknown> => {
      const result = await call('agent_conversations', {})
      const { structuredContent } = result as {
        readonly structuredContent: { readonly conversations: readonly Json[] }
      }
      return structuredContent.conversations.map(({ agent, name }) => [agent, name])
    },
    delete: (name: string) => call('agent_conversations', { delete: name }),
  }
}

test('gives each name a thread of its own, in all processes, beside the one without a name', async () => {
  await using world = conversing()
  world.agents.join('other', () => [{ type: 'done', text: 'Other' }])
  const odd = 'ä"\u0000\n../%00:*🙂'
  for (const name of [undefined, 'trip', odd]) {
    await clientOf(world.a).say(name)
    await clientOf(world.b).say(name)
  }
  await clientOf(world.a, 'bob').say('trip')
  await clientOf(world.a).say('trip', 'other')
  const [none, again, trip, tripAgain, other, otherAgain, ...foreign] = world.threads()
  expect([again, tripAgain, otherAgain]).toEqual([none, trip, other])
  expect(new Set([none, trip, other, ...foreign]).size).toBe(5)
  expect(await clientOf(world.b).list()).toEqual(
    expect.arrayContaining([
      ['echo', 'trip'],
      ['echo', odd],
    ]),
  )
})

test('lists and deletes the conversations of their owner only', async () => {
  await using world = conversing()
  await clientOf(world.a).say('trip')
  expect(await clientOf(world.a, 'bob').list()).toEqual([])
  const deleted = (count: number): object => ({ structuredContent: { deleted: count } })
  expect(await clientOf(world.a, 'bob').delete('trip')).toMatchObject(deleted(0))
  expect(await clientOf(world.a).list()).toEqual([['echo', 'trip']])
  expect(await clientOf(world.b).delete('trip')).toMatchObject(deleted(1))
  expect(await clientOf(world.a).list()).toEqual([])
  await clientOf(world.a).say('trip')
  const [first, second] = world.threads()
  expect(second).not.toBe(first)
})

test('ends a conversation when its time after the last call is over', async () => {
  await using world = conversing({ conversationTtlMs: 60_000 })
  await clientOf(world.a).say('trip')
  await world.clock.advance(59_000)
  await clientOf(world.a).say('trip')
  await world.clock.advance(59_000)
  expect(await clientOf(world.a).list()).toEqual([['echo', 'trip']])
  await world.clock.advance(1000)
  expect(await clientOf(world.a).list()).toEqual([])
  await clientOf(world.a).say('trip')
  const [first, second, third] = world.threads()
  expect([second === first, third === first]).toEqual([true, false])
})

/** Adds an agent that tells when its run begins, and ends when the test says so. */
function joinSlow({ agents }: Pick<ReturnType<typeof conversing>, 'agents'>) {
  const [begun, go] = [deferred(), deferred()]
  agents.join('slow', async function* () {
    begun.resolve()
    await go.promise
    yield { type: 'done', text: 'Done' }
  })
  return { begun, go }
}

test('runs the calls of one conversation one after the other, and does not delete it meanwhile', async () => {
  await using world = conversing()
  const { begun, go } = joinSlow(world)
  const first = clientOf(world.a).say('trip', 'slow')
  await begun.promise
  const busy = { isError: true, _meta: { reason: 'busy' } }
  const second = clientOf(world.a).say('trip', 'slow')
  expect(await clientOf(world.b).say('trip', 'slow')).toMatchObject(busy)
  expect(await clientOf(world.b).delete('trip')).toMatchObject(busy)
  expect(world.agents.calls).toHaveLength(1)
  go.resolve()
  for (const result of await Promise.all([first, second])) {
    expect(result).toMatchObject({ content: [{ text: 'Done' }] })
  }
})

test('says which conversations of a name it has not deleted', async () => {
  await using world = conversing()
  const { begun, go } = joinSlow(world)
  await clientOf(world.a).say('trip')
  const first = clientOf(world.a).say('trip', 'slow')
  await begun.promise
  expect(await clientOf(world.b).delete('trip')).toMatchObject({
    content: [{ text: expect.stringContaining('Deleted conversations: 1. Not those with "slow"') }],
    isError: true,
    _meta: { reason: 'busy' },
  })
  expect(await clientOf(world.b).list()).toEqual([['slow', 'trip']])
  go.resolve()
  await first
})

test('deletes a conversation whose process died', async () => {
  await using world = conversing()
  const { begun, go } = joinSlow(world)
  const first = clientOf(world.a).say('trip', 'slow')
  await begun.promise
  for await (const { key } of listAll(world.store.records, 'process:')) {
    await world.store.records.delete(key)
  }
  expect(await clientOf(world.b).delete('trip')).toMatchObject({
    structuredContent: { deleted: 1 },
  })
  go.resolve()
  await first
  expect(await clientOf(world.a).list()).toEqual([])
})

test('continues the conversation of a question with an answer that does not name it', async () => {
  await using world = conversing()
  const asked = await clientOf(world.a).say('trip', 'asking')
  const { structuredContent } = asked as { readonly structuredContent: Json }
  const { run } = structuredContent
  await settled()
  const resume = { run, answers: { i0: { answer: 'Ada' }, i1: { answer: 'blue' } } }
  const answered = await clientOf(world.b).call('asking', { resume })
  expect(answered).toMatchObject({ content: [{ text: expect.stringContaining('blue') }] })
  expect(new Set(world.threads()).size).toBe(1)
})

test('refuses a name of a caller that cannot be known again, and names that are no text', async () => {
  await using world = conversing()
  const invalid = { isError: true, _meta: { reason: 'invalid_arguments' } }
  expect(await clientOf(world.a, 'nobody').say('trip')).toMatchObject(invalid)
  expect(await clientOf(world.a).say('x'.repeat(257))).toMatchObject(invalid)
  expect(await clientOf(world.a).say({ name: 'trip' })).toMatchObject(invalid)
  expect(await clientOf(world.a, 'nobody').list()).toEqual([])
  expect(world.agents.calls).toEqual([])
})

test('refuses a new name of a caller who has 1,000 conversations, and takes the known ones', async () => {
  await using world = conversing()
  await clientOf(world.a).say('trip')
  const named = (await world.store.records.list('conversation:')).find(({ key }) => {
    return key.includes(':', 'conversation:'.length)
  })
  if (!named) throw new Error('There is no conversation')
  for (let count = 1; count < 1000; count++) {
    await world.store.records.put(`${named.key}${count}`, named.value, { ttlMs: 60_000 })
  }
  const full = {
    isError: true,
    content: [{ text: expect.stringContaining('agent_conversations') }],
  }
  expect(await clientOf(world.b).say('other')).toMatchObject(full)
  for (const who of ['ada', 'bob']) {
    expect(await clientOf(world.b, who).say('trip')).toMatchObject({ content: [{ text: 'Hi' }] })
  }
})

test('offers neither the parameter nor the tool in mode `run`', async () => {
  await using world = twoReplicas()
  const { result } = await send(world.a, request('tools/list', {}))
  expect(JSON.stringify(result)).not.toContain('conversation')
})

test('caches no result of a thread, also without a name', async () => {
  await using world = conversing({}, { overrides: { echo: { cacheTtlMs: 60_000 } } })
  for (let n = 0; n < 2; n++) await clientOf(world.a).say()
  expect(world.threads()).toHaveLength(2)
})
