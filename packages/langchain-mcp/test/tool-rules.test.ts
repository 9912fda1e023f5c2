import { startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { createMcpTools, loadMcpTools, type McpToolSource } from '../src/index.ts'
import { namesOf } from './listed-tools.ts'

describe('allow and deny', () => {
  test.each([
    [{ allow: ['counter_add'] }, ['counter_add']],
    [{ allow: ['*_add'] }, ['counter_add', 'cart_add']],
    [{ allow: [/^c/], deny: ['cart_*'] }, ['counter_add']],
    [{ deny: [{ server: 'shop' }] }, []],
    [{ allow: [{ server: 'sh*p', tool: /o/g }] }, ['counter_add', 'echo', 'slow', 'whoami']],
    [{ allow: [] }, []],
    [{ allow: ['counter'] }, []],
    [{ allow: ['*n*e*'] }, ['counter_add']],
  ] as const)('%j', async (rules, expected) => {
    await using server = await startLegacyServer()
    await using mcp = createMcpTools({ servers: { shop: { url: server.url } }, ...rules })
    expect(namesOf(await mcp.listTools())).toEqual(expected)
  })

  test('use the name on the server, not the name that the model sees', async () => {
    const source: McpToolSource = {
      listTools: () => Promise.resolve([{ name: 'delete all' }, { name: 'read' }]),
      callTool: () => Promise.resolve({}),
    }
    expect(namesOf(await loadMcpTools(source, { deny: ['delete all'] }))).toEqual(['read'])
  })

  test.each(['shop', 'store'])(
    'knows a server by its name and by its slug (%s)',
    async (server) => {
      const source: McpToolSource = {
        listTools: () => Promise.resolve([{ name: 'delete' }, { name: 'read' }]),
        callTool: () => Promise.resolve({}),
      }
      const tools = await loadMcpTools(source, {
        server: { name: 'shop', slug: 'store' },
        deny: [{ server, tool: 'delete' }],
      })
      expect(namesOf(tools)).toEqual(['read'])
    },
  )
})
