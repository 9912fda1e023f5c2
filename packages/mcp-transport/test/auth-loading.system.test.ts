import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { startProtectedServer } from './protected-server.ts'

/** Returns the outcome of the first request in a process where the OAuth library is not installed. */
async function withoutLibrary(code: string): Promise<string> {
  const script = `
    import { registerHooks } from 'node:module'
    registerHooks({
      resolve(specifier, context, next) {
        return next(specifier === '@modelcontextprotocol/client' ? 'not-installed' : specifier, context)
      },
    })
    ${code}
    process.stdout.write(String((await answered).error?.data.cause.message ?? 'answered'))`
  const child = spawn(
    process.execPath,
    ['--conditions=mcp-source', '--no-warnings', '--input-type=module', '--eval', script],
    { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')])
  return output
}

const send = (provider: string, url: string): string => `
  const { StreamableHttpTransport } = await import('@x/mcp-transport')
  const { createAuthProvider, bearer } = await import('@x/mcp-transport/auth')
  const transport = new StreamableHttpTransport('${url}', { era: 'legacy', authProvider: ${provider} })
  const answered = new Promise((resolve) => { transport.onmessage = resolve })
  await transport.start()
  await transport.send({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {} })
  await answered
  await transport.close()`

/** A provider with this token, or without a token. */
const oauth = (token?: string): string =>
  `Object.assign(createAuthProvider({ redirectUrl: 'http://127.0.0.1:9/', redirect() {} }), {
    ${token === undefined ? '' : `tokens: () => ({ access_token: '${token}', token_type: 'Bearer' })`}
  })`

test('fails without the library with an error that says what to install, for a server that requires OAuth', async () => {
  await using server = await startProtectedServer()
  await expect(withoutLibrary(send(oauth(), server.url))).resolves.toContain(
    'npm i @modelcontextprotocol/client',
  )
})

test('works without the library with bearer tokens and stored tokens', async () => {
  await using server = await startProtectedServer()
  const { access_token: token } = server.issue()
  await expect(withoutLibrary(send(`bearer('${token}')`, server.url))).resolves.toBe('answered')
  await expect(withoutLibrary(send(oauth(token), server.url))).resolves.toBe('answered')
})
