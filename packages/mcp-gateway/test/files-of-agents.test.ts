import { expect, test } from 'vitest'
import type { AgentCall, AgentUpdate } from '../src/agents/agent.ts'
import type { Behaviour } from './agents-at-hand.ts'
import { connectForFiles } from './file-clients.ts'
import { serve, textFile, TOKENS, twoPeople } from './served-files.ts'

async function textOf({ artifacts }: AgentCall, version?: number): Promise<string> {
  let text = ''
  for await (const chunk of (await artifacts.read('diary.txt', version))?.read() ?? []) {
    text += Buffer.from(chunk).toString()
  }
  return text
}

function wordsOf({ input }: AgentCall): string {
  return input.kind === 'message' ? input.text : ''
}

/** An agent that adds a line to its diary, and answers with the whole diary. */
const diary: Behaviour = async function* write(call): AsyncIterable<AgentUpdate> {
  const text = `${await textOf(call)}${wordsOf(call)};`
  await call.artifacts.write({ name: 'diary.txt', data: Buffer.from(text) })
  yield { type: 'done', text: `${text} first: ${await textOf(call, 1)}` }
}

/** An agent that looks for files that it did not write. */
const curious: Behaviour = async function* look(call): AsyncIterable<AgentUpdate> {
  const files = await call.artifacts.list()
  yield { type: 'done', text: `${files.length} files; ${(await textOf(call)) || 'no diary'}` }
}

async function say(
  client: Awaited<ReturnType<typeof connectForFiles>>,
  tool: string,
  message: string,
): Promise<unknown> {
  const { content } = await client.call(tool, { message })
  return content.find(({ type }) => type === 'text')
}

test('lets an agent read the files that it wrote for the same principal, in any version', async () => {
  await using at = await serve({ diary, curious }, { auth: twoPeople() })
  await using ada = await connectForFiles('legacy', at.url, { token: TOKENS.ada })
  await using again = await connectForFiles('modern', at.url, { token: TOKENS.ada })
  await using bob = await connectForFiles('legacy', at.url, { token: TOKENS.bob })
  expect(await say(ada, 'diary', 'one')).toMatchObject({ text: 'one; first: one;' })
  expect(await say(again, 'diary', 'two')).toMatchObject({ text: 'one;two; first: one;' })
  expect(await say(bob, 'diary', 'mine')).toMatchObject({ text: 'mine; first: mine;' })
})

test('shows an agent no files of other agents and no uploads', async () => {
  await using at = await serve({ diary, curious }, { auth: twoPeople() })
  await using ada = await connectForFiles('legacy', at.url, { token: TOKENS.ada })
  await say(ada, 'diary', 'secret')
  const headers = { authorization: `Bearer ${TOKENS.ada}` }
  const uploaded = await fetch(`${at.files}/diary.txt`, { method: 'PUT', headers, body: 'mine' })
  expect(uploaded.status).toBe(201)
  expect(await say(ada, 'curious', 'Look')).toMatchObject({ text: '0 files; no diary' })
  expect(await say(ada, 'diary', 'two')).toMatchObject({
    text: 'secret;two; first: secret;',
  })
})

test('shares files of callers without a name within a session only', async () => {
  await using at = await serve({ diary })
  await using first = await connectForFiles('legacy', at.url)
  await using second = await connectForFiles('legacy', at.url)
  await using modern = await connectForFiles('modern', at.url)
  await say(first, 'diary', 'one')
  expect(await say(first, 'diary', 'two')).toMatchObject({ text: 'one;two; first: one;' })
  expect(await say(second, 'diary', 'other')).toMatchObject({ text: 'other; first: other;' })
  for (const line of ['a', 'b']) {
    expect(await say(modern, 'diary', line)).toMatchObject({ text: `${line}; first: ${line};` })
  }
})

test('lists the latest versions of an agent’s files by name', async () => {
  const listed: unknown[] = []
  const files: Behaviour = async function* write({ artifacts }): AsyncIterable<AgentUpdate> {
    listed.push(await artifacts.list())
    for (const name of ['b.md', 'a.txt', 'b.md']) await artifacts.write(textFile(name, 'text'))
    listed.push(await artifacts.list())
    expect(await artifacts.read('c.txt')).toBeUndefined()
    yield { type: 'done' }
  }
  await using at = await serve({ files })
  await using client = await connectForFiles('legacy', at.url)
  await client.call('files', { message: 'Go' })
  const size = 4
  expect(listed).toMatchObject([
    [],
    [
      { name: 'a.txt', version: 1, mimeType: 'text/plain', size },
      { name: 'b.md', version: 1, mimeType: 'text/markdown', size },
    ],
  ])
})

test('offers no earlier files where files are not stored, and none after the run', async () => {
  let call: AgentCall | undefined
  const files: Behaviour = async function* write(given): AsyncIterable<AgentUpdate> {
    call = given
    await given.artifacts.write(textFile('diary.txt', 'text'))
    const { length } = await given.artifacts.list()
    yield { type: 'done', text: `${length} files; ${(await textOf(given)) || 'no diary'}` }
  }
  await using at = await serve({ files }, { artifacts: { quota: 0 } })
  await using client = await connectForFiles('legacy', at.url)
  expect(await say(client, 'files', 'Go')).toMatchObject({ text: '0 files; no diary' })
  await expect(call?.artifacts.read('diary.txt')).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(call?.artifacts.list()).rejects.toMatchObject({ code: 'CLOSED' })
})
