// Runs the program of docs/guides/streaming.md, with a scripted model and a test server in place of real ones.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { startModernServer } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const MODEL = `fakeModel()
  .respondWithTools([{ name: 'progress', args: {}, id: 'call-0' }])
  .respondWithTools([{ name: 'confirm', args: {}, id: 'call-1' }])
  .respond(new AIMessage('Booked'))`

test('streams progress, a question and the text after its answer', async () => {
  await using server = await startModernServer()
  const page = await readFile(here('../../../docs/guides/streaming.md'), 'utf8')
  const [, example = ''] = /```ts\n([^]*?)```/.exec(page) ?? []
  const folder = await mkdtemp(here('../.tutorial-'))
  const program = example
    .replace("'anthropic:claude-sonnet-4-5'", () => MODEL)
    .replace('https://hotel.example/mcp', server.url)
    .replace("'.sessions'", JSON.stringify(join(folder, 'sessions')))
    .replace('import { createAgent }', 'import { AIMessage, createAgent, fakeModel }')
  const others = process.rawListeners('SIGTERM')
  try {
    await writeFile(join(folder, 'chat.ts'), program)
    vi.stubEnv('PORT', '0')
    const { app } = await import(pathToFileURL(join(folder, 'chat.ts')).href)
    const send = async (body: object) => {
      const init = { method: 'POST', body: JSON.stringify({ thread: 't1', ...body }) }
      const response: Response = await app.request('/chat', init)
      expect(response.headers.get('content-type')).toBe('text/event-stream')
      return eventsIn(await response.text())
    }

    const first = await send({ message: 'Book a room' })
    expect(first.filter(({ event }) => event === 'progress')).toHaveLength(3)
    const inputRequests = { confirmation: { params: { message: 'Go on?' } } }
    expect(first.at(-1)).toMatchObject({
      event: 'questions',
      data: [{ id: expect.any(String), value: { type: 'mcp_elicitation', inputRequests } }],
    })
    const [{ id, value }] = JSON.parse(JSON.stringify(first.at(-1)?.data))
    const responses = { confirmation: { action: 'accept', content: { confirmed: true } } }
    const second = await send({ resume: { [id]: { key: value.key, responses } } })
    expect(second).toEqual([{ event: 'text', data: 'Booked' }])
    expect(server.executions('confirm')).toBe(1)
  } finally {
    const added = process.rawListeners('SIGTERM').filter((one) => !others.includes(one))
    for (const end of added) end('SIGTERM') // ends the server of the program
    await rm(folder, { recursive: true })
  }
})

function eventsIn(stream: string): { event: string; data: unknown }[] {
  return Array.from(stream.matchAll(/^event: (\w+)\ndata: (.*)\n\n/gm), ([, event = '', data]) => ({
    event,
    data: JSON.parse(data ?? ''),
  }))
}
