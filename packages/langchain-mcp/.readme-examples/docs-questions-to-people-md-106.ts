import { authorizationToInterrupt, elicitationToInterrupt } from '@x/langchain-mcp'
import { createAuthProvider, fileTokenStore } from '@x/mcp-transport/auth'

const provider = createAuthProvider({
  redirectUrl: 'https://agent.example/callback',
  redirect() {}, // the interrupt contains the URL
  store: fileTokenStore('.mcp/ada.json'),
})
const authorization = authorizationToInterrupt(provider, 'https://shop.example/mcp')
const elicitation = elicitationToInterrupt({ authorization })
const { authProvider } = authorization // for the client of that server and user
// later: new Command({ resume: authorizationResume(interrupt, callbackUrl) })
export {}
