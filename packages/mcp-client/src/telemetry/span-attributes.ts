import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { McpClientError } from '../mcp-client-error.ts'
import type { OtelAttributes } from './open-telemetry.ts'

/** What is observed: one request, or several that belong together. */
export interface ObservedOperation {
  readonly method: string
  readonly tool?: string | undefined
  /** The name of the prompt that is asked for. */
  readonly prompt?: string | undefined
  /** The URI of the resource that it is about. */
  readonly resource?: string | undefined
}

/** Where an operation went, as far as it came. */
export interface Whereabouts {
  readonly url?: URL | undefined
  /** The server is spoken to over stdio. */
  readonly isChildProcess?: boolean | undefined
  readonly protocolVersion?: string | undefined
  /** Shortened. */
  readonly sessionId?: string | undefined
}

// Names and values are those of the OpenTelemetry semantic conventions for MCP.

/** Method and target, of which there are few: a URI is an attribute only. */
export function spanNameOf({ method, tool, prompt }: ObservedOperation): string {
  if (tool !== undefined) return `tools/call ${tool}`
  return prompt === undefined ? method : `${method} ${prompt}`
}

export function operationAttributes(operation: ObservedOperation): OtelAttributes {
  const { resource } = operation
  const attributes = metricAttributes(operation)
  return resource === undefined
    ? attributes
    : { ...attributes, 'mcp.resource.uri': withoutSecrets(resource) }
}

/** Those of which there are few. */
export function metricAttributes({ method, tool, prompt }: ObservedOperation): OtelAttributes {
  if (tool !== undefined) {
    return {
      'mcp.method.name': 'tools/call',
      'gen_ai.tool.name': tool,
      'gen_ai.operation.name': 'execute_tool',
    }
  }
  const attributes = { 'mcp.method.name': method }
  return prompt === undefined ? attributes : { ...attributes, 'gen_ai.prompt.name': prompt }
}

/** Without query, fragment and credentials, in which servers and users put secrets. */
function withoutSecrets(uri: string): string {
  return uri.replace(/[?#].*$/s, '').replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/]*@/i, '$1')
}

/** For metrics, too: without the session id, of which there are too many. */
export function serverAttributes(where: Whereabouts): OtelAttributes {
  const { url, isChildProcess = false, protocolVersion } = where
  return {
    ...(isChildProcess ? { 'network.transport': 'pipe' } : {}),
    ...(url === undefined
      ? {}
      : {
          'network.transport': 'tcp',
          'network.protocol.name': 'http',
          'server.address': url.hostname,
          'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
        }),
    ...(protocolVersion === undefined ? {} : { 'mcp.protocol.version': protocolVersion }),
  }
}

/** Of what an operation was rejected with. */
export function errorAttributes(error: unknown): OtelAttributes {
  if (McpClientError.is(error)) return { 'error.type': error.code }
  if (error instanceof McpError) {
    const code = String(error.code)
    return { 'error.type': code, 'rpc.response.status_code': code }
  }
  return { 'error.type': error instanceof Error ? error.name : typeof error }
}

/** A tool that failed by itself is a result, and an error all the same. */
export function resultAttributes(result: unknown): OtelAttributes | undefined {
  const isError =
    typeof result === 'object' && result !== null && 'isError' in result && result.isError === true
  return isError ? { 'error.type': 'tool_error' } : undefined
}
