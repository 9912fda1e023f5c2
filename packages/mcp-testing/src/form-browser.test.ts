import { expect, test } from 'vitest'
import { FormBrowser } from './form-browser.ts'
import { startTestServer } from './loopback-server.ts'

const PAGE = `<!doctype html><meta charset="utf-8">
<form method="post" action="/agree?a=1&amp;b=2">
<input type="hidden" name="token" value="&#34;x&quot; &lt;y&gt;">
<button type="submit" name="decision" value="allow">Allow</button>
<button type="submit" name="decision" value="deny">Deny</button>
</form>`

test('follows redirects and refreshes, keeps cookies, and presses the first button of a page', async () => {
  const seen: string[] = []
  await using server = await startTestServer((request, response) => {
    const { method, url = '', headers } = request
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      seen.push(`${method} ${url} ${headers.cookie ?? '-'} ${body}`.trimEnd())
      if (url === '/start') return void response.writeHead(302, { location: '/page' }).end()
      if (url === '/page') {
        response.setHeader('set-cookie', ['a=1; Path=/; HttpOnly', 'b=2; Secure', '__Host-c=3'])
        return void response.end(PAGE)
      }
      if (url.startsWith('/agree')) {
        response.setHeader('set-cookie', ['a=; Max-Age=0', 'd=x=y'])
        return void response.end('<meta http-equiv="refresh" content="0; url=/next?x=1&#38;y=2">')
      }
      response.writeHead(303, { location: 'http://127.0.0.1:9/callback?code=c' }).end()
    })
  }, '')
  const browser = new FormBrowser()
  const end = await browser.signIn(`${server.url}/start`, 'http://127.0.0.1:9/callback')
  expect(end.searchParams.get('code')).toBe('c')
  expect(seen).toEqual([
    'GET /start -',
    'GET /page -',
    'POST /agree?a=1&b=2 a=1 token=%22x%22+%3Cy%3E&decision=allow',
    'GET /next?x=1&y=2 d=x=y',
  ])
})

test('sends a form without an action to the URL of its page', async () => {
  const seen: string[] = []
  await using server = await startTestServer(({ method, url }, response) => {
    seen.push(`${method} ${url}`)
    if (method === 'GET') return void response.end('<form method="post"><button>Go</button></form>')
    response.writeHead(302, { location: 'app:/callback' }).end()
  }, '')
  const end = await new FormBrowser().signIn(`${server.url}/page?x=1`, 'app:/callback')
  expect(end.href).toBe('app:/callback')
  expect(seen).toEqual(['GET /page?x=1', 'POST /page?x=1'])
})

test('says where a sign-in ends that leads nowhere, without its query', async () => {
  await using server = await startTestServer((_request, response) => {
    response.writeHead(400).end('{"error":"invalid_request"}')
  }, '')
  const refused = new FormBrowser().signIn(`${server.url}/page?secret=1`, 'app:/')
  await expect(refused).rejects.toThrow(/^127\.0\.0\.1:\d+\/page answered 400, and leads nowhere$/)
})

test('ends in a loop of redirects', async () => {
  await using server = await startTestServer((_request, response) => {
    response.writeHead(302, { location: '/again' }).end()
  }, '')
  await expect(new FormBrowser().signIn(server.url, 'app:/')).rejects.toThrow('in 20 steps')
})
