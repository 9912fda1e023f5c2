import { readFile } from 'node:fs/promises'
import { Command, isInterrupted } from '@langchain/langgraph'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { guardedAgent } from './hooks-example.ts'

test('runs the example of docs/tool-calls.md', async () => {
  await using server = await startLegacyServer()
  const told: unknown[] = []
  const { agent, mcp } = guardedAgent(server.url, (...what) => told.push(what))
  await using _ = mcp
  const config = { configurable: { thread_id: 't1' } }
  const stopped: object = await agent.invoke(
    { messages: [{ role: 'user', content: 'call cart_add {"item":"pear"}' }] },
    config,
  )
  expect(isInterrupted(stopped)).toBe(true)
  expect(server.count('tools/call')).toBe(0)
  const resume = { decisions: [{ type: 'approve' }] }
  const { messages } = await agent.invoke(new Command({ resume }), config)
  expect(messages.at(-1)?.text).toBe('cart holds pear')
  expect(told).toEqual([['shop', 'cart_add', { item: 'pear' }]])
  const call = server.received.find(({ rpcMethod }) => rpcMethod === 'tools/call')
  expect(call?.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
})

test('finds the example in the document', async () => {
  const [readme = '', example = ''] = await Promise.all(
    ['../../../docs/tool-calls.md', './hooks-example.ts'].map((path) =>
      readFile(new URL(path, import.meta.url), 'utf8'),
    ),
  )
  const [, shown = ''] = /\/\/ #region readme\n([^]*?)\n {2}\/\/ #endregion/.exec(example) ?? []
  expect(shown).not.toBe('')
  expect(readme).toContain(
    shown
      .replaceAll(/^ {2}/gm, '')
      .replace('{ shop: { url } }', "{ shop: { url: 'https://shop.example/mcp' } }"),
  )
})
