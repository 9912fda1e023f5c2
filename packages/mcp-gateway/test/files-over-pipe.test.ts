import { PassThrough } from 'node:stream'

import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import { createGateway } from '../src/gateway.ts'
import type { AgentUpdate } from '../src/agents/agent.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { AgentsAtHand, type Behaviour } from './agents-at-hand.ts'
import { connectPipe } from './file-clients.ts'
import { reader, textFile, textOf, uriOf } from './served-files.ts'

describe.each([
  { era: 'legacy', mode: 'legacy' as const },
  { era: 'modern', mode: { pin: '2026-07-28' } },
])('over a pipe, a client of the $era era', ({ mode }) => {
  test('reads its files, gives them to agents, and is notified of new versions', async () => {
    let version = 0
    const give: Behaviour = function* giveNext(): Iterable<AgentUpdate> {
      yield { type: 'file', file: textFile('plan.txt', `version ${++version}`) }
      yield { type: 'done' }
    }
    await using gateway = createGateway({
      sources: [new AgentsAtHand({ give, reader })],
      log: false,
    })
    const pipe = { input: new PassThrough(), output: new PassThrough() }
    await using connection = gateway.serveStdio(pipe)
    const updated = deferred<string>()
    await using client = await connectPipe(pipe, { mode, onUpdated: updated.resolve })
    const { content } = await client.call('give', { message: 'Go' })
    const versioned = uriOf(content.at(-1))
    const uri = versioned.split('?')[0] ?? ''
    expect(await client.resources()).toMatchObject([{ uri }])
    expect(await client.read(uri)).toMatchObject({ text: 'version 1' })
    const result = await client.call('reader', { message: 'Read', files: [uri] })
    expect(textOf(result)).toContain('version 1')
    await client.follow(versioned)
    await client.call('give', { message: 'Again' })
    await expect(updated.promise).resolves.toBe(uri)
    await connection.close()
  })
})

test('fails one request only when the store cannot name the owner of a file', async () => {
  const store = new MemoryGatewayStore()
  const get = store.records.get.bind(store.records)
  store.records.get = (key) =>
    key.startsWith('files/scope/') ? Promise.reject(new Error('away')) : get(key)
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ reader })],
    store,
    log: false,
  })
  const pipe = { input: new PassThrough(), output: new PassThrough() }
  await using connection = gateway.serveStdio(pipe)
  await using client = await connectPipe(pipe, { mode: { pin: '2026-07-28' } })
  const uri = 'artifact://aaaaaaaaaaaaaaaaaaaaaaaaaa/a.txt'
  const followed = client.follow(uri)
  const tools = client.tools() // sent at once: it is answered after the request before it
  await expect(followed).rejects.toThrow('Try again')
  expect((await tools).map(({ name }) => name)).toEqual(['reader'])
  await connection.close()
  await store.close()
})
