import { expect, test } from 'vitest'

import { basePaths, endpointPaths, pathEnds, publicUrlsOf, wellKnownPaths } from './public-url.ts'

test.each([
  ['https://agents.example', '/mcp', 'https://agents.example', 'https://agents.example/mcp'],
  ['https://agents.example/', '/mcp', 'https://agents.example', 'https://agents.example/mcp'],
  [
    'https://agents.example/team',
    '/mcp',
    'https://agents.example/team',
    'https://agents.example/team/mcp',
  ],
  [
    'https://agents.example/team//',
    '/mcp',
    'https://agents.example/team',
    'https://agents.example/team/mcp',
  ],
  [
    'https://agents.example/team/mcp',
    '/mcp',
    'https://agents.example/team/mcp',
    'https://agents.example/team/mcp',
  ],
  [
    'https://agents.example/mcp/',
    '/mcp',
    'https://agents.example/mcp',
    'https://agents.example/mcp',
  ],
  [
    'https://agents.example/xmcp',
    '/mcp',
    'https://agents.example/xmcp',
    'https://agents.example/xmcp/mcp',
  ],
  [
    'https://agents.example/a/b',
    '/v1/mcp',
    'https://agents.example/a/b',
    'https://agents.example/a/b/v1/mcp',
  ],
  [
    'https://agents.example/a/v1/mcp',
    '/v1/mcp',
    'https://agents.example/a/v1/mcp',
    'https://agents.example/a/v1/mcp',
  ],
  [
    'https://agents.example/team',
    '/mcp/',
    'https://agents.example/team',
    'https://agents.example/team/mcp/',
  ],
  [
    'https://agents.example/team',
    '/',
    'https://agents.example/team',
    'https://agents.example/team',
  ],
  ['https://agents.example', '/', 'https://agents.example', 'https://agents.example/'],
  [
    'HTTPS://Agents.Example:443/Team',
    '/mcp',
    'https://agents.example/Team',
    'https://agents.example/Team/mcp',
  ],
  [
    'http://[2001:DB8::1]:80/t%20m/ä',
    '/mcp',
    'http://[2001:db8::1]/t%20m/%C3%A4',
    'http://[2001:db8::1]/t%20m/%C3%A4/mcp',
  ],
  [
    'https://münchen.example:8443',
    '/mcp',
    'https://xn--mnchen-3ya.example:8443',
    'https://xn--mnchen-3ya.example:8443/mcp',
  ],
])('gives %s with %s the base %s and the endpoint %s', (...row) => {
  const [publicUrl, path, base, endpoint] = row
  expect(publicUrlsOf(publicUrl, path)).toEqual({ base, endpoint })
})

test('serves the endpoint with and without the prefix, and with a part of it', () => {
  expect([...endpointPaths(undefined, '/mcp')]).toEqual(['/mcp'])
  expect([...endpointPaths('https://h.example/a/b', '/mcp')]).toEqual([
    '/mcp',
    '/a/b/mcp',
    '/b/mcp',
  ])
  expect([...endpointPaths('https://h.example/a/mcp', '/mcp')]).toEqual(['/mcp', '/a/mcp'])
  expect([...endpointPaths('https://h.example/a', '/')]).toEqual(['/', '/a/', '/a'])
})

test('serves files below every end of the path', () => {
  expect(basePaths(undefined)).toEqual([''])
  expect(basePaths('https://h.example/a/mcp/')).toEqual(['/a/mcp', '/mcp', ''])
  expect(pathEnds('/')).toEqual([''])
})

test('puts the name of a well-known document before the path and after it', () => {
  expect(wellKnownPaths('/.well-known/x', '')).toEqual(['/.well-known/x'])
  expect(wellKnownPaths('/.well-known/x', '/a/mcp')).toEqual([
    '/.well-known/x/a/mcp',
    '/a/mcp/.well-known/x',
    '/.well-known/x/mcp',
    '/mcp/.well-known/x',
    '/.well-known/x',
  ])
})
