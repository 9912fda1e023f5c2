import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import type { GatewayOptions } from '../src/options.ts'
import type { AgentUpdate } from '../src/agents/agent.ts'
import type { Behaviour } from './agents-at-hand.ts'
import { connectForFiles, type FileClient } from './file-clients.ts'
import {
  TOKENS,
  giving,
  serve,
  twoPeople,
  uriOf,
  textOf,
  refusalOf,
  textFile,
  reader,
} from './served-files.ts'

test('notifies a session that unsubscribed of other files only', async () => {
  let version = 0
  const give: Behaviour = function* giveNext(): Iterable<AgentUpdate> {
    version++
    for (const name of ['a', 'b']) yield { type: 'file', file: textFile(name, `${version}`) }
    yield { type: 'done' }
  }
  await using at = await serve({ give })
  const heard: string[] = []
  const listChanged = deferred()
  const second = deferred()
  await using client = await connectForFiles('legacy', at.url, {
    onListChanged: listChanged.resolve,
    onUpdated: (uri) => {
      heard.push(uri)
      if (uri.endsWith('/b')) second.resolve()
    },
  })
  const { content } = await client.call('give', { message: 'Go' })
  const [a = '', b = ''] = content.map(uriOf).map((uri) => uri.split('?')[0] ?? '')
  await listChanged.promise // changes from before are reported by then
  await Promise.all([client.follow(`${a}?version=1`), client.follow(b)])
  await client.unfollow(a)
  await client.call('give', { message: 'Again' })
  await second.promise
  expect(heard).toEqual([b])
})

describe('callers without a name', () => {
  test('read the files of their session, which no other session can', async () => {
    await using at = await serve({ give: giving(textFile('a.txt', 'mine')), reader })
    await using first = await connectForFiles('legacy', at.url)
    await using second = await connectForFiles('legacy', at.url)
    await using modern = await connectForFiles('modern', at.url)
    const { content } = await first.call('give', { message: 'Go' })
    const uri = uriOf(content.at(-1))
    expect(await first.read(uri)).toMatchObject({ text: 'mine' })
    expect(await first.resources()).toMatchObject([{ name: 'a.txt' }])
    for (const other of [second, modern] satisfies readonly FileClient[]) {
      expect(await other.resources()).toEqual([])
      expect(await refusalOf(other.read(uri))).toMatchObject({ code: -32602 })
      const handed = await other.call('reader', { message: 'Read', files: [uri] })
      expect(handed).toMatchObject({ isError: true })
    }
    expect((await fetch(uri.replace('artifact://', `${at.files}/`))).status).toBe(404)
  })

  test('share one quota for each address, however many sessions they open', async () => {
    const artifacts = { quota: 4 }
    await using at = await serve({ give: giving(textFile('a.txt', 'mine')) }, { artifacts })
    await using first = await connectForFiles('legacy', at.url)
    await using second = await connectForFiles('legacy', at.url)
    expect(textOf(await first.call('give', { message: 'Go' }))).toBe('Here they are\n')
    const refused = await second.call('give', { message: 'Go' })
    expect(textOf(refused)).toMatch(/"a\.txt" could not be kept: No room/)
    const put = await fetch(`${at.files}/b.txt`, { method: 'PUT', body: 'b' })
    expect([put.status, await put.json()]).toMatchObject([507, { error: 'QUOTA' }])
  })

  test('get a new scope for each call without a session', async () => {
    await using at = await serve({ give: giving(textFile('a.txt', 'mine')) })
    await using client = await connectForFiles('modern', at.url)
    const uris: string[] = []
    for (let n = 0; n < 2; n++) {
      uris.push(uriOf((await client.call('give', { message: 'Go' })).content.at(-1)))
    }
    const [first = '', second = ''] = uris
    expect(new URL(second).host).not.toBe(new URL(first).host)
    expect(await client.read(first)).toMatchObject({ text: 'mine' })
    expect(await client.resources()).toEqual([])
    expect((await fetch(first.replace('artifact://', `${at.files}/`))).status).toBe(200)
  })

  test('see in the list of tools only the parameters that are offered', async () => {
    const properties = async (options: GatewayOptions): Promise<readonly string[]> => {
      await using at = await serve({ reader }, options)
      await using client = await connectForFiles('legacy', at.url, { token: TOKENS.ada })
      const tools = await client.tools()
      const { inputSchema } = tools.find(({ name }) => name === 'reader') ?? { inputSchema: {} }
      const names = Object.keys((inputSchema as { properties: object }).properties)
      return names.filter((name) => name !== 'resume')
    }
    expect(await properties({})).toEqual(['message', 'files'])
    expect(await properties({ auth: twoPeople() })).toEqual(['message', 'files'])
    const off = { artifacts: { upload: false }, auth: twoPeople() }
    expect(await properties(off)).toEqual(['message'])
    const none = { artifacts: { quota: 0 }, auth: twoPeople() }
    expect(await properties(none)).toEqual(['message'])
  })
})
