import { z } from 'zod'
import type { ModernState } from './modern-state.ts'
import { text } from './modern-state.ts'
import type { RegisterTool } from './register.ts'

/** Tools some of whose arguments go into `Mcp-Param-*` headers as well. */
export function addHeaderTools(register: RegisterTool, state: ModernState): void {
  register({
    name: 'region',
    description: 'Returns its arguments and the headers that were made of them.',
    input: z.object({
      region: z.string().meta({ 'x-mcp-header': state.regionHeader }),
      count: z.int().optional().meta({ 'x-mcp-header': 'Count' }),
      dry_run: z.boolean().optional().meta({ 'x-mcp-header': 'Dry-Run' }),
      target: z.object({ zone: z.string().optional().meta({ 'x-mcp-header': 'Zone' }) }).optional(),
      note: z.string().optional(),
    }),
    annotations: { readOnlyHint: false, idempotentHint: true },
    run: (args, context) => {
      const all = [...(context.http?.req?.headers ?? new Headers())]
      const headers = Object.fromEntries(all.filter(([name]) => name.startsWith('mcp-param-')))
      return { ...text(JSON.stringify(args)), structuredContent: { args, headers } }
    },
  })
}

/** A tool that conforming clients leave out: numbers have no exact form in a header. */
export function addInvalidHeaderTool(register: RegisterTool): void {
  register({
    name: 'invalid_header',
    description: 'Its annotation is on a number.',
    input: z.object({ amount: z.number().meta({ 'x-mcp-header': 'Amount' }) }),
    run: ({ amount }) => text(String(amount)),
  })
}
