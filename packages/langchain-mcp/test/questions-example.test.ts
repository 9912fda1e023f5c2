import { readFile } from 'node:fs/promises'
import { AIMessage } from '@langchain/core/messages'
import { startModernServer } from '@x/mcp-testing'
import { fakeModel } from 'langchain'
import { expect, test } from 'vitest'
import { createMcpTools } from '../src/index.ts'
import { book } from './questions-example.ts'

test('runs the example of docs/questions-to-people.md', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({ servers: { hotel: { url: server.url } } })
  const model = fakeModel()
    .respondWithTools([{ name: 'confirm', args: {}, id: 'call-0' }])
    .respond(new AIMessage('Booked'))
  const asked: unknown[] = []
  const messages = await book({ model, tools: await mcp.listTools() }, async (requests) => {
    asked.push(requests)
    return { confirmation: { action: 'accept', content: { confirmed: true } } }
  })
  expect(asked).toMatchObject([{ confirmation: { method: 'elicitation/create' } }])
  expect(JSON.stringify(messages)).toContain('Booked')
  expect(server.executions('confirm')).toBe(1)
})

test('ends if only other interrupts wait, such as an approval', async () => {
  await using server = await startModernServer()
  await using mcp = createMcpTools({
    servers: { hotel: { url: server.url } },
    approve: () => true,
  })
  const model = fakeModel().respondWithTools([{ name: 'confirm', args: {}, id: 'call-0' }])
  const tools = await mcp.listTools()
  await book({ model, tools }, () => Promise.reject(new Error('Nobody is asked here')))
  expect(server.executions('confirm')).toBe(0)
})

test('finds the example in the document', async () => {
  const [readme = '', code = ''] = await Promise.all(
    ['../../../docs/questions-to-people.md', './questions-example.ts'].map((path) =>
      readFile(new URL(path, import.meta.url), 'utf8'),
    ),
  )
  const [, shown = ''] = /\/\/ #region readme\n([^]*?)\/\/ #endregion/.exec(code) ?? []
  const flat = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()
  expect(shown).not.toBe('')
  expect(flat(readme)).toContain(flat(shown))
})
