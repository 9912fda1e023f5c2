import type { TestTool } from '@x/mcp-testing'

/** A tool with arguments that are repeated in `Mcp-Param-*` headers. */
export function regionTool(regionHeader = 'Region'): TestTool {
  const inHeader = (type: string, name: string): unknown => ({ type, 'x-mcp-header': name })
  const target = { type: 'object', properties: { zone: inHeader('string', 'Zone') } }
  return {
    name: 'region',
    inputSchema: {
      type: 'object',
      properties: {
        region: inHeader('string', regionHeader),
        count: inHeader('integer', 'Count'),
        target,
        note: { type: 'string' },
      },
      required: ['region'],
    },
    annotations: { readOnlyHint: false, idempotentHint: true },
    run: () => 'done',
  }
}
