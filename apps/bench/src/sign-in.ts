/**
 * Follows redirects from an authorization server back to the client, as the browser of a user who is signed in does.
 *
 * @returns the URL of the client, with the parameters of the authorization server
 */
export async function signIn(url: URL, redirectUrl: string): Promise<URL> {
  let at = url
  for (let hops = 0; hops < 5; hops += 1) {
    if (at.href.startsWith(redirectUrl)) return at
    const response = await fetch(at, { redirect: 'manual' })
    await response.body?.cancel()
    const location = response.headers.get('location')
    if (location === null) {
      throw new Error(`The authorization server answered ${response.status} without a redirect`)
    }
    at = new URL(location, at)
  }
  throw new Error('The client was not redirected back after 5 redirects')
}
