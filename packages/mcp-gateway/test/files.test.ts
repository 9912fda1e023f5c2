import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import type { AgentUpdate } from '../src/agents/agent.ts'
import type { Behaviour } from './agents-at-hand.ts'
import { connectForFiles, FILE_CLIENTS } from './file-clients.ts'
import {
  TOKENS,
  image,
  giving,
  serve,
  twoPeople,
  uriOf,
  textOf,
  refusalOf,
  textFile,
  reader,
} from './served-files.ts'

describe.each(FILE_CLIENTS)('a client: %s', (kind) => {
  test('gets text first, then each file: inline up to the limit, above it as a link', async () => {
    const files = [
      { name: 'fits.png', data: image(1000) },
      { name: 'notes.md', data: Buffer.from('# Notes') },
      { name: 'large.png', data: image(1001) },
      { name: 'bytes.bin', data: new Uint8Array(1000) },
      { name: 'more.bin', data: new Uint8Array(1001) },
    ]
    const inline = { fileMaxBytes: 1000 }
    await using at = await serve({ give: giving(...files) }, { inline })
    await using client = await connectForFiles(kind, at.url)
    const { content } = await client.call('give', { message: 'Go' })
    expect(content.map(({ type }) => type)).toEqual([
      'text',
      'image',
      'resource',
      'resource_link',
      'resource',
      'resource_link',
    ])
    const [text, png, notes, link] = content
    expect(text).toMatchObject({ text: 'Here they are' })
    expect(png).toMatchObject({
      data: Buffer.from(image(1000)).toString('base64'),
      mimeType: 'image/png',
    })
    expect(notes).toMatchObject({ resource: { text: '# Notes', mimeType: 'text/markdown' } })
    expect(link).toMatchObject({ name: 'large.png', mimeType: 'image/png', size: 1001 })
  })

  test('reads every file of its runs by the URI in the result, and finds it in the list', async () => {
    const files = [textFile('é a.txt', 'small'), { name: 'b.bin', data: new Uint8Array(600) }]
    await using at = await serve(
      { give: giving(...files) },
      { inline: { fileMaxBytes: 500 }, auth: twoPeople() },
    )
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const { content } = await client.call('give', { message: 'Go' })
    const [, text, link] = content
    const read = await client.read(uriOf(text))
    expect(read).toMatchObject({ text: 'small', mimeType: 'text/plain', _meta: { version: 1 } })
    expect(await client.read(uriOf(link))).toMatchObject({
      blob: Buffer.from(new Uint8Array(600)).toString('base64'),
    })
    const listed = await client.resources()
    const sizes = Object.fromEntries(listed.map(({ name, size }) => [name, size]))
    expect(sizes).toEqual({ 'é a.txt': 5, 'b.bin': 600 })
    const [template = ''] = await client.templates()
    expect(template).toBe('artifact://{scope}/{name}{?version}')
    expect(await client.complete(template, 'b')).toEqual(['b.bin'])
  })

  test('is notified of a new version of a file that it follows', async () => {
    let version = 0
    const give: Behaviour = function* giveNext(): Iterable<AgentUpdate> {
      yield { type: 'file', file: textFile('plan.txt', `version ${++version}`) }
      yield { type: 'done' }
    }
    await using at = await serve({ give }, { auth: twoPeople() })
    const updated = deferred<string>()
    const listChanged = deferred()
    await using client = await connectForFiles(kind, at.url, {
      token: TOKENS.ada,
      onUpdated: updated.resolve,
      onListChanged: listChanged.resolve,
    })
    const { content } = await client.call('give', { message: 'Go' })
    await listChanged.promise
    const versioned = uriOf(content.at(-1))
    const uri = versioned.split('?')[0] ?? ''
    expect(await client.follow(kind === 'legacy' ? uri : versioned)).toEqual([uri])
    await client.call('give', { message: 'Again' })
    await expect(updated.promise).resolves.toBe(uri)
    expect(await client.read(uri)).toMatchObject({ text: 'version 2' })
  })

  test('finds no file of another caller, with any request', async () => {
    const behaviours = { give: giving(textFile('secret.txt', 'of Ada')), reader }
    await using at = await serve(behaviours, { auth: twoPeople() })
    await using ada = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    await using bob = await connectForFiles(kind, at.url, { token: TOKENS.bob })
    const answer = await ada.call('give', { message: 'Go' })
    const uri = uriOf(answer.content.at(-1))
    const nowhere = uri.replace('secret', 'nothing')

    expect(await bob.resources()).toEqual([])
    const refusal = await refusalOf(bob.read(uri))
    expect(refusal).toMatchObject({ code: -32602, data: { uri } })
    expect(refusal).toEqual({ ...(await refusalOf(ada.read(nowhere))), data: { uri } })
    const handed = await bob.call('reader', { message: 'Read', files: [uri] })
    expect(handed).toMatchObject({ isError: true, _meta: { reason: 'invalid_arguments' } })
    expect(textOf(handed)).toContain('/files/0')
    const followed = await bob.follow(uri).catch((error: Error) => [error.message])
    expect(followed.join()).toMatch(kind === 'legacy' ? /not found/i : /^$/)
    const path = uri.replace('artifact://', `${at.files}/`)
    const headers = { authorization: `Bearer ${TOKENS.bob}` }
    const [his, none, hers] = await Promise.all([
      fetch(path, { headers }),
      fetch(path.replace('secret', 'nothing'), { headers }),
      fetch(path, { headers: { authorization: `Bearer ${TOKENS.ada}` } }),
    ])
    expect([his.status, none.status, hers.status]).toEqual([404, 404, 200])
    expect(await his.text()).toBe(await none.text())
    expect(await hers.text()).toBe('of Ada')
    expect((await fetch(path)).status).toBe(401)
  })

  test('uploads a file, and gives it to an agent by its URI', async () => {
    await using at = await serve({ reader }, { auth: twoPeople() })
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const answer = await fetch(`${at.files}/data.csv`, {
      method: 'PUT',
      headers: { 'content-type': 'text/csv', authorization: `Bearer ${TOKENS.ada}` },
      body: 'a,b\n1,2\n',
    })
    expect(answer.status).toBe(201)
    const { uri } = (await answer.json()) as { uri: string }
    const result = await client.call('reader', { message: 'Read', files: [uri] })
    expect(textOf(result)).toBe('data.csv (text/csv, 8): a,b\n1,2\n')
  })
})

test('leaves out a file with a forbidden address, and returns the rest of the result', async () => {
  const give = giving({ name: 'x', data: { url: 'http://169.254.169.254/latest/meta-data' } })
  await using at = await serve({ give })
  await using client = await connectForFiles('modern', at.url)
  const answer = await client.call('give', { message: 'Go' })
  expect(textOf(answer)).toMatch(/^Here they are\n?.*could not be kept/s)
  expect(answer.isError ?? false).toBe(false)
})

test('gives a run a reason of its own if its agent cannot store a file', async () => {
  const keep: Behaviour = async function* keepIt({ artifacts }): AsyncIterable<AgentUpdate> {
    await artifacts.write({ name: 'large.bin', data: new Uint8Array(100) })
    yield { type: 'done', text: 'Kept' }
  }
  await using at = await serve({ keep }, { artifacts: { quota: 99 } })
  await using client = await connectForFiles('legacy', at.url)
  const answer = await client.call('keep', { message: 'Go' })
  expect(answer).toMatchObject({ isError: true, _meta: { reason: 'no_room' } })
  expect(textOf(answer)).toContain('99')
})

describe('a gateway that does not store files', () => {
  const artifacts = { quota: 0, maxBytes: 3000 }

  test.each(FILE_CLIENTS)(
    'shows the files that fit into a result, and names the others: %s',
    async (kind) => {
      const files = [
        { name: 'fits.png', data: image(1000) },
        { name: 'notes.md', data: Buffer.from('# Notes') },
        { name: 'notes.md', data: Buffer.from('# Notes') },
        { name: 'large.png', data: image(1001) },
        { name: 'endless.bin', data: new Uint8Array(3001) },
      ]
      const options = { artifacts, inline: { fileMaxBytes: 1000 } }
      await using at = await serve({ give: giving(...files) }, options)
      await using client = await connectForFiles(kind, at.url)
      const { content } = await client.call('give', { message: 'Go' })
      expect(content).toMatchObject([
        { type: 'text', text: 'Here they are' },
        { type: 'image', mimeType: 'image/png' },
        { type: 'resource', resource: { uri: 'inline:///notes.md?version=1', text: '# Notes' } },
        { type: 'text', text: expect.stringContaining('The result has no room for its 1001') },
        {
          type: 'text',
          text: expect.stringContaining('more than the 3000 bytes that are allowed'),
        },
      ])
      expect(content[1]?.['_meta']).toBeUndefined() // the file cannot be read by a URI
    },
  )
})
