// For the test: an OpenID provider that issues tokens as Keycloak does with realm.json.
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT, type JWTPayload } from 'jose'
import { Provider } from 'oidc-provider'

interface Realm {
  readonly realm: string
  readonly accessTokenLifespan: number
  readonly clientScopes: readonly { readonly name: string }[]
  readonly clients: readonly { readonly clientId: string; readonly secret?: string }[]
}

/** @param endpoint takes the place of the audience in realm.json */
export async function startProvider(endpoint: string) {
  const realm: Realm = JSON.parse(await readFile('realm.json', 'utf8'))
  const { accessTokenLifespan, clients, clientScopes } = realm
  const { clientId: id, secret = '' } = clients.find((each) => each.secret !== undefined) ?? {
    clientId: '',
  }
  const scope = clientScopes.map(({ name }) => name).join(' ')
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const key = { ...(await exportJWK(privateKey)), kid: 'test', alg: 'RS256', use: 'sig' }

  const path = `/realms/${realm.realm}`
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const issuer = `http://localhost:${port}${path}`
  const provider = new Provider(issuer, {
    jwks: { keys: [key] },
    scopes: scope.split(' '),
    clients: [
      {
        client_id: id,
        client_secret: secret,
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => endpoint,
        getResourceServerInfo: (_context, audience) => ({
          scope,
          audience,
          accessTokenFormat: 'jwt',
          accessTokenTTL: accessTokenLifespan,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
  const handle = provider.callback()
  server.on('request', (request, response) => {
    const { url = '' } = request
    // Express sets this too: the provider finds the path before which it is mounted.
    Object.assign(request, { originalUrl: url, url: url.replace(path, '') })
    void handle(request, response)
  })

  return {
    issuer,
    client: { id, secret },
    /** A token for the program. */
    async token(resource: string): Promise<string> {
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${btoa(`${id}:${secret}`)}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource, scope }),
      })
      const { access_token: token } = await response.json()
      if (typeof token !== 'string') throw new Error(`No token: ${response.status}`)
      return token
    },
    /** A token of the key of the provider, with other claims. */
    sign(claims: JWTPayload): Promise<string> {
      const now = Math.floor(Date.now() / 1000)
      const usual = { iss: issuer, sub: id, aud: endpoint, scope, iat: now - 120, exp: now + 60 }
      const header = { alg: 'RS256', kid: 'test' }
      return new SignJWT({ ...usual, ...claims }).setProtectedHeader(header).sign(privateKey)
    },
    async close(): Promise<void> {
      server.close()
      server.closeAllConnections()
    },
  }
}
