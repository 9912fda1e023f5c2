import { expect, test } from 'vitest'
import { createMcpToolsFromMetadataForMcpServer } from './create-mcp-tools-from-agent.ts'
import type { McpToolSource } from '../tool-source.ts'

const resource = {
  $resourceType: 'mcp',
  name: 'Shop',
  slug: 'shop',
  availableTools: [{ name: 'add item', description: 'Adds' }],
}

/** A server that must not be asked for its tools. */
const unlisted: McpToolSource = {
  listTools: () => Promise.reject(new Error('nobody should ask')),
  callTool: (name, args) =>
    Promise.resolve({ content: [{ type: 'text', text: `${name} ${JSON.stringify(args)}` }] }),
}

test('creates the tools of one server with an existing client', async () => {
  const [tool, ...others] = await createMcpToolsFromMetadataForMcpServer(resource, unlisted)
  expect(others).toEqual([])
  expect(tool?.name).toBe('add_item')
  await expect(tool?.invoke({ n: 1 })).resolves.toBe('add item {"n":1}')
})

test('creates none for a disabled server', async () => {
  const disabled = { ...resource, isEnabled: false }
  await expect(createMcpToolsFromMetadataForMcpServer(disabled, unlisted)).resolves.toEqual([])
})

test('names an invalid resource by its path', async () => {
  const broken = { ...resource, availableTools: [{ name: '' }, JSON.parse('{"name":7}')] }
  await expect(createMcpToolsFromMetadataForMcpServer(broken, unlisted)).rejects.toThrow(
    /^MCP resource: \$\.availableTools\[1\]\.name: expected string/,
  )
})

test.each([{ allowAll: true }, { allowAll: false }])(
  'applies stored argument properties to the live tool of the same name: %o',
  async ({ allowAll }) => {
    const dynamic = {
      ...resource,
      availableTools: [
        {
          name: 'add item',
          argumentProperties: {
            '$.shop': { variant: 'static', value: 's3cret', isSensitive: true },
          },
        },
      ],
      toolsConfiguration: { discoveryMode: { type: 'dynamic' as const, allowAll } },
    }
    const inputSchema = { type: 'object', properties: { shop: { type: 'string' } } }
    const source: McpToolSource = {
      ...unlisted,
      listTools: () => Promise.resolve([{ name: 'add item', inputSchema }]),
      callTool: (_name, args) =>
        Promise.resolve({ content: [{ type: 'text', text: String(args?.['shop'] === 's3cret') }] }),
    }
    const [tool] = await createMcpToolsFromMetadataForMcpServer(dynamic, source)
    expect(JSON.stringify(tool?.definition)).not.toContain('s3cret')
    await expect(tool?.invoke({ shop: 'mine' })).resolves.toBe('true')
  },
)
