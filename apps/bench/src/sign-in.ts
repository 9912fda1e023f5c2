import { FormBrowser } from '@x/mcp-testing'

/**
 * Goes through the pages of an authorization server as the browser of a user does who is signed in and agrees.
 *
 * @returns the URL of the client, with the parameters of the authorization server
 */
export function signIn(url: URL, redirectUrl: string): Promise<URL> {
  return new FormBrowser().signIn(url, redirectUrl)
}
