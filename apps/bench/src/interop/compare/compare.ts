export async function compare(_p: (t: string) => void): Promise<readonly object[]> {
  return []
}
