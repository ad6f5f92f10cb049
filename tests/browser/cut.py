"""A look at the page: does any text go beyond the place it stands in?"""

CUT = """root => {
    const cut = [];
    const inside = root.getBoundingClientRect();
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    while (walk.nextNode()) {
        const node = walk.currentNode, parent = node.parentElement;
        if (!node.data.trim() || !parent.checkVisibility({ contentVisibilityAuto: true })) continue;
        // What scrolls inside the view is reached there; what ends in dots says the rest when opened.
        if (parent.closest("[data-vibe-scrolls], .vibe-came, textarea")) continue;
        range.selectNodeContents(node);
        const box = range.getBoundingClientRect();
        if (box.right > inside.right + 1 || box.left < inside.left - 1) cut.push(node.data.slice(0, 60));
    }
    return cut;
}"""
