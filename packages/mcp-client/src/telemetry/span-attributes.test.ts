import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import { McpClientError } from '../mcp-client-error.ts'
import {
  errorAttributes,
  metricAttributes,
  operationAttributes,
  resultAttributes,
  serverAttributes,
  spanNameOf,
} from './span-attributes.ts'

test('a tool is named, a method stands for itself', () => {
  expect(operationAttributes({ method: 'tools/call', tool: 'pay' })).toEqual({
    'mcp.method.name': 'tools/call',
    'gen_ai.tool.name': 'pay',
    'gen_ai.operation.name': 'execute_tool',
  })
  expect(operationAttributes({ method: 'ping' })).toEqual({ 'mcp.method.name': 'ping' })
})

test('a prompt and a resource are named; a URI is not in the name of the span, nor in a metric', () => {
  const prompt = { method: 'prompts/get', prompt: 'greet' }
  expect(operationAttributes(prompt)).toEqual({
    'mcp.method.name': 'prompts/get',
    'gen_ai.prompt.name': 'greet',
  })
  const resource = { method: 'resources/read', resource: 'file:///a' }
  expect(operationAttributes(resource)).toEqual({
    'mcp.method.name': 'resources/read',
    'mcp.resource.uri': 'file:///a',
  })
  expect(metricAttributes(resource)).toEqual({ 'mcp.method.name': 'resources/read' })
  const tool = { method: 'tools/call', tool: 'pay' }
  expect([tool, prompt, resource].map(spanNameOf)).toEqual([
    'tools/call pay',
    'prompts/get greet',
    'resources/read',
  ])
})

test.each([
  ['https://shop.example/a?key=secret', 'https://shop.example/a'],
  ['https://shop.example/a#secret?x', 'https://shop.example/a'],
  ['https://user:secret@shop.example/a', 'https://shop.example/a'],
  ['db://a/b@c', 'db://a/b@c'],
  ['urn:a:b?\nsecret', 'urn:a:b'],
])('of the URI %j of a resource, %j is told', (resource, told) => {
  const attributes = operationAttributes({ method: 'resources/read', resource })
  expect(attributes['mcp.resource.uri']).toBe(told)
})

test.each([
  ['https://shop.example/mcp?key=secret', 'shop.example', 443],
  ['http://shop.example/mcp', 'shop.example', 80],
  ['http://[::1]:8080/mcp', '[::1]', 8080],
])('%s is a host and a port', (url, address, port) => {
  expect(serverAttributes({ url: new URL(url), sessionId: 'ab12…(36)' })).toEqual({
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'server.address': address,
    'server.port': port,
  })
})

test('a child process is a pipe, and what was not found is nowhere', () => {
  expect(serverAttributes({ isChildProcess: true })).toEqual({ 'network.transport': 'pipe' })
  expect(serverAttributes({})).toEqual({})
})

test('an error is told by its code, never by what somebody else wrote in it', () => {
  const lost = new McpClientError('SESSION_LOST', 'lost', { server: 'shop' })
  expect(errorAttributes(lost)).toEqual({ 'error.type': 'SESSION_LOST' })
  expect(errorAttributes(new McpError(-32602, 'secret'))).toEqual({
    'error.type': '-32602',
    'rpc.response.status_code': '-32602',
  })
  expect(errorAttributes(AbortSignal.abort().reason)).toEqual({ 'error.type': 'AbortError' })
  expect(errorAttributes('secret')).toEqual({ 'error.type': 'string' })
})

test.each([
  [{ content: [], isError: true }, { 'error.type': 'tool_error' }],
  [{ content: [], isError: false }, undefined],
  [{ content: [] }, undefined],
  [undefined, undefined],
])('a result %j: %j', (result, attributes) => {
  expect(resultAttributes(result)).toEqual(attributes)
})
