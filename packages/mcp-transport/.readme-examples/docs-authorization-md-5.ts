import { bearer, clientCredentials, fileTokenStore, loopbackOAuth } from '@x/mcp-transport/auth'

// Tokens from another part of the application. `refused` is the token that the server refused.
export const fromElsewhere = bearer(({ refused }) =>
  refused === undefined ? process.env['SHOP_TOKEN'] : process.env['SHOP_TOKEN_2'],
)
// A program without a user.
export const asProgram = clientCredentials({
  clientId: 'reports',
  clientSecret: process.env['CLIENT_SECRET'] ?? '',
  issuer: 'https://login.example',
})
// A user with a browser on this machine.
export const asUser = loopbackOAuth({
  clientName: 'shop',
  store: fileTokenStore('.mcp/shop-tokens.json'),
  openBrowser: (url) => console.log(`Sign in at ${url.href}`),
})
export {}
