import type { ToolInterceptor } from './tool-interceptor.ts'
import { serverTitle } from '../tool-origin.ts'
import type { JsonSchema, ToolResult } from '../catalogue/tool-source.ts'

/** A call that an evaluation may answer in place of the server. */
export interface MockedCall {
  /** Its slug, else its name. */
  readonly server: string
  /** The name on the wire. */
  readonly name: string
  /** `''` where the server has none. */
  readonly description: string
  readonly args: Readonly<Record<string, unknown>>
  /** @default { type: 'object', properties: {} } */
  readonly inputSchema: JsonSchema
  /** @default { type: 'object', properties: {} } */
  readonly outputSchema: JsonSchema
}

/** Answers in place of the server, with a result or just its text; `undefined` lets the server answer. */
export type ToolMock = (
  call: MockedCall,
) => ToolResult | string | undefined | Promise<ToolResult | string | undefined>

const ANYTHING: JsonSchema = { type: 'object', properties: {} }

/** Nothing is sent, and nobody asked for approval, where the mock answers. */
export function mockInterceptor(mock: ToolMock): ToolInterceptor {
  return async function mocked({ server, tool, args }, next) {
    const { name, description = '', inputSchema = ANYTHING, outputSchema = ANYTHING } = tool
    const call = { server: serverTitle(server), name, description, args, inputSchema, outputSchema }
    const answer = await mock(call)
    if (typeof answer === 'string') return { content: [{ type: 'text', text: answer }] }
    return answer ?? next()
  }
}
